package main

import (
	"github.com/spf13/pflag"

	"github.com/muster-fs/muster/configs"
)

// copyFlags are what put, get and cp have in common.
type copyFlags struct {
	recursive, force, keep, plain bool
	resume, checksum              bool
	parallel                      int
	output                        outputFlags
}

// defaultParallel is how many files are copied at once: small ones wait for disks and answers.
const defaultParallel = 8

func (f *copyFlags) add(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.recursive, "recursive", "r", false, "copy directories and all below them (also -R)")
	flags.BoolVarP(&f.recursive, "Recursive", "R", false, "")
	flags.Lookup("Recursive").Hidden = true // a flag has one letter only
	flags.BoolVarP(&f.force, "force", "f", false, "replace files and links that exist")
	flags.BoolVarP(&f.keep, "preserve", "p", false, "keep times and modes")
	flags.BoolVarP(&f.plain, "no-target-directory", "T", false, "never copy into the target, also if it is a directory: it is what the source becomes")
	flags.BoolVar(&f.resume, "resume", false, "pass over files that are there already, with the same length and time; times are kept")
	flags.BoolVar(&f.checksum, "checksum", false, "with --resume: compare checksums, not times")
	flags.IntVar(&f.parallel, "parallel", defaultParallel, "`NUMBER` of files that are copied at once")
	f.output.addOutput(flags, formatText, formatJSON)
}

func (f *copyFlags) check() error {
	switch {
	case f.parallel < 1 || f.parallel > maxParallel:
		return usagef("--parallel %d: use 1 to %d", f.parallel, maxParallel)
	case f.checksum && !f.resume:
		return usagef("--checksum is about what --resume passes over; add that")
	}
	return nil
}

const maxParallel = 256

// keepTimes says whether times are kept: --resume compares them the next time.
func (f *copyFlags) keepTimes() bool { return f.keep || f.resume }

// writeFlags say how files of Muster are written.
type writeFlags struct {
	replication string
	blockSize   configs.Size
}

func (w *writeFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&w.replication, "replication", "", "write files as `replicated/N`, N from 1 to 9 (default: the server's)")
	flags.TextVar(&w.blockSize, "block-size", configs.Size(0), "`BYTES` of a block, from 4MiB to 4GiB; 0: the server's")
}
