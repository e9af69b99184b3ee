package muster

import "fmt"

// The bounds of a batch of commands.
const (
	MaxBatchCommands = 10000
	MaxBatchBytes    = 1 << 20
)

// Command is one change to the tree, as a plain value: Mkdir, Create, Rename,
// Delete, SetAttr or Symlink, and those that write a file, which are a server's own:
// StartFile, AddBlock, FinishFile and TakeLease. The time and the txid are stamped by the
// committer, and applying a command depends on nothing but the command, the stamp and the tree.
//
// A nil time means the stamped time. New entries belong to the caller and to their
// parent's group unless Owner or Group is set, which follows the rules of SetAttr.
//
// Some commands name a file by its inode id, so that a rename by somebody does not disturb the
// writer. Where they allow File 0, that is what the command before in the batch made or changed.
type Command interface {
	// Verb is the command's name in messages, such as "mkdir".
	Verb() string
	// Subject is what the command is about: its path, or its inode as "inode 17".
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
// file is metadata only. Only a superuser may give it blocks, since they could be those of
// another's file.
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
	File      uint64 // not 0: the entry of this inode id, wherever it is; From is then ignored. It does not cross the wire
}

// Delete removes an entry; a directory with entries only if Recursive.
type Delete struct {
	Path      string
	Recursive bool
	File      uint64 // not 0: the entry of this inode id, wherever it is; Path is then ignored. It does not cross the wire
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

// StartFile makes an empty file that Holder writes: it has FlagWriting until FinishFile. A file
// that is being written is never replaced by another StartFile: ErrExists, also with Overwrite.
type StartFile struct {
	Path        string
	Mode        uint16
	Replication Replication // not none; not of what tells repeats of a request id apart
	BlockSize   int64       // bytes, MinBlockSize to MaxBlockSize; as Replication, the server may choose it anew in a repeat
	Owner       string
	Group       string
	MTime       *int64 // ms
	Parents     bool   // make missing parents, mode 0755
	Overwrite   bool   // replace an existing file
	Holder      Holder
	// Target is, if not empty, the path that the file is to have in the end, by a Rename: Path is a
	// temporary one, where nothing may be, and Overwrite is about Target. What a rename would refuse
	// is refused now, and if nobody writes the file any more it is removed, not finished.
	Target string
}

// AddBlock appends a block, of length 0 for now, to a file that Holder writes, and gives the
// block before its final length. One that got no data is replaced: it leaves the list.
//
// The user must be who started the file, or a superuser; the file's mode does not matter any
// more. Errors: ErrNotFound if the file is not there any more or not being written, ErrExists if
// another holder writes it, ErrChanged if the block before is not Ends, ErrLimit past MaxBlocks
// blocks.
type AddBlock struct {
	File     uint64 // inode id; 0: see Command
	Holder   Holder
	Previous int64   // bytes: final length of the block before, at most the block size; 0 if there is none
	Ends     BlockID // the block before; zero: not said
	Block    Block   // of length 0; not of what tells repeats of a request id apart
}

// FinishFile ends the writing of a file: it gives the last block its final length, or takes it
// from the list if it got no data. Who may, and the errors, are those of AddBlock.
type FinishFile struct {
	File   uint64 // inode id; 0: see Command
	Holder Holder
	Last   int64   // bytes: final length of the last block; 0 if there is none
	Ends   BlockID // the last block; zero: not said
	MTime  *int64  // ms
}

// TakeLease makes Holder who writes a file instead of From. Who may, and the errors, are those
// of AddBlock for From.
type TakeLease struct {
	File         uint64 // inode id; 0: see Command
	From, Holder Holder
}

func (Mkdir) Verb() string      { return "mkdir" }
func (Create) Verb() string     { return "create" }
func (Symlink) Verb() string    { return "symlink" }
func (Rename) Verb() string     { return "rename" }
func (Delete) Verb() string     { return "delete" }
func (SetAttr) Verb() string    { return "setattr" }
func (StartFile) Verb() string  { return "start file" }
func (AddBlock) Verb() string   { return "add block to" }
func (FinishFile) Verb() string { return "finish" }
func (TakeLease) Verb() string  { return "take lease of" }

func (c Mkdir) Subject() string   { return c.Path }
func (c Create) Subject() string  { return c.Path }
func (c Symlink) Subject() string { return c.Path }
func (c Rename) Subject() string {
	if c.File != 0 {
		return inode(c.File)
	}
	return c.From
}
func (c Delete) Subject() string {
	if c.File != 0 {
		return inode(c.File)
	}
	return c.Path
}
func (c SetAttr) Subject() string    { return c.Path }
func (c StartFile) Subject() string  { return c.Path }
func (c AddBlock) Subject() string   { return inode(c.File) }
func (c FinishFile) Subject() string { return inode(c.File) }
func (c TakeLease) Subject() string  { return inode(c.File) }

// inode names what has no path in a command.
func inode(id uint64) string {
	if id == 0 {
		return "the file of the command before"
	}
	return fmt.Sprintf("inode %d", id)
}

// RequestID makes repeating a call safe: the same id gives the first call's result.
// The zero value is none.
type RequestID struct {
	Client   [16]byte
	Sequence uint64
}

// Applied is the result of a batch of commands.
type Applied struct {
	Txid   uint64
	IDs    []uint64 // inode id that each command made or changed
	Repeat bool     // it is what an earlier request of the same id did. It does not cross the wire
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
