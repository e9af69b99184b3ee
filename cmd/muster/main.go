// Command muster is the server and the command line of Muster, a file-system
// metadata service for query engines.
//
// Each verb has a file of its own: it parses, calls the client (or starts the
// server) and prints. What verbs share is in root.go.
//
// Exit codes: 0 all went well; 1 something failed, or some of the paths did, each
// named on standard error; 2 wrong usage; 130 interrupted.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
