package muster

import "fmt"

// The bounds of a batch of commands.
const (
	MaxBatchCommands = 10000
	MaxBatchBytes    = 1 << 20
)

// Command is one change to the tree, as a plain value: Mkdir, Create, Rename,
// Delete, SetAttr or Symlink. The time and the txid are stamped by the committer, and
// applying a command depends on nothing but the command, the stamp and the tree.
//
// A nil time means the stamped time. New entries belong to the caller and to their
// parent's group unless Owner or Group is set, which follows the rules of SetAttr.
type Command interface {
	// Verb is the command's name in messages, such as "mkdir".
	Verb() string
	// Subject is the path that the command is about.
	Subject() string
}

// Mkdir makes a directory.
type Mkdir struct {
	Path    string
	Mode    uint16
	Parents bool // make missing parents too, and do not mind an existing directory
	Owner   string
	Group   string
	MTime   *int64 // ms
}

// Create makes a file of given metadata. If the blocks do not cover the length, the
// file is metadata only.
type Create struct {
	Path        string
	Mode        uint16
	Length      int64 // bytes
	Replication Replication
	BlockSize   int64 // bytes
	Blocks      []Block
	Owner       string
	Group       string
	MTime       *int64 // ms
	ATime       *int64 // ms
	Parents     bool   // make missing parents, mode 0755
	Overwrite   bool   // replace an existing file
}

// Symlink makes a link to Target, which need not exist and is kept as given.
type Symlink struct {
	Path   string
	Target string
	Owner  string
	Group  string
	MTime  *int64 // ms
}

// Rename moves an entry. It refuses an existing target unless Overwrite: then a file
// or link replaces a file or link, and a directory replaces an empty directory.
type Rename struct {
	From, To  string
	Overwrite bool
}

// Delete removes an entry; a directory with entries only if Recursive.
type Delete struct {
	Path      string
	Recursive bool
}

// SetAttr changes the attributes that are not nil. It follows a link in last place.
type SetAttr struct {
	Path  string
	Mode  *uint16
	Owner *string
	Group *string
	MTime *int64 // ms
	ATime *int64 // ms
}

func (Mkdir) Verb() string   { return "mkdir" }
func (Create) Verb() string  { return "create" }
func (Symlink) Verb() string { return "symlink" }
func (Rename) Verb() string  { return "rename" }
func (Delete) Verb() string  { return "delete" }
func (SetAttr) Verb() string { return "setattr" }

func (c Mkdir) Subject() string   { return c.Path }
func (c Create) Subject() string  { return c.Path }
func (c Symlink) Subject() string { return c.Path }
func (c Rename) Subject() string  { return c.From }
func (c Delete) Subject() string  { return c.Path }
func (c SetAttr) Subject() string { return c.Path }

// RequestID makes repeating a call safe: the same id gives the first call's result.
// The zero value is none.
type RequestID struct {
	Client   [16]byte
	Sequence uint64
}

// Applied is the result of a batch of commands.
type Applied struct {
	Txid uint64
	IDs  []uint64 // inode id that each command made or changed
}

// CommandError says which command of a batch was refused; nothing of the batch was applied.
type CommandError struct {
	Index int // in the batch
	Verb  string
	Path  string
	Err   error
}

func (e *CommandError) Error() string { return fmt.Sprintf("%s %s: %v", e.Verb, e.Path, e.Err) }

// Unwrap returns the cause.
func (e *CommandError) Unwrap() error { return e.Err }
