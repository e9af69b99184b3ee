package rpc

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// batchCommands is the number of ApplyRequest's field of commands.
const batchCommands protowire.Number = 3

// checkBatch refuses with muster.ErrLimit an encoded ApplyRequest that is past the
// bounds of a batch, before it is decoded: two bytes make an empty command, whose message
// takes thirty times as many.
func checkBatch(b []byte) error {
	if len(b) > muster.MaxBatchBytes {
		return fmt.Errorf("%w: a batch of %d bytes, at most %d", muster.ErrLimit, len(b), muster.MaxBatchBytes)
	}
	commands := 0
	for len(b) > 0 {
		field, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return nil // decoding tells what is wrong
		}
		if field == batchCommands {
			commands++
		}
		b = b[n:]
	}
	if commands > muster.MaxBatchCommands {
		return fmt.Errorf("%w: a batch of %d commands, at most %d", muster.ErrLimit, commands, muster.MaxBatchCommands)
	}
	return nil
}

// CommandToPB returns the message of a command. It refuses with muster.ErrInvalid a
// command that does not cross the wire so: those that write a file have calls of their own, and
// nobody else names an inode by its id. So it does with owners that are not valid UTF-8.
func CommandToPB(c muster.Command) (*pb.Command, error) {
	if owner, group := ownersOf(c); !utf8.ValidString(owner) || !utf8.ValidString(group) {
		return nil, fmt.Errorf("%w: owner %q, group %q: not valid UTF-8", muster.ErrInvalid, owner, group)
	}
	switch c := c.(type) {
	case muster.Mkdir:
		return &pb.Command{Command: &pb.Command_Mkdir{Mkdir: &pb.Mkdir{
			Path: []byte(c.Path), Mode: uint32(c.Mode), Parents: c.Parents, Owner: c.Owner, Group: c.Group, Mtime: c.MTime,
		}}}, nil
	case muster.Create:
		return &pb.Command{Command: &pb.Command_Create{Create: &pb.Create{
			Path: []byte(c.Path), Mode: uint32(c.Mode), Length: c.Length, Replication: uint32(c.Replication), BlockSize: c.BlockSize,
			Blocks: blocksToPB(c.Blocks), Owner: c.Owner, Group: c.Group, Mtime: c.MTime, Atime: c.ATime,
			Parents: c.Parents, Overwrite: c.Overwrite,
		}}}, nil
	case muster.Symlink:
		return &pb.Command{Command: &pb.Command_Symlink{Symlink: &pb.Symlink{
			Path: []byte(c.Path), Target: []byte(c.Target), Owner: c.Owner, Group: c.Group, Mtime: c.MTime,
		}}}, nil
	case muster.Rename:
		if c.File != 0 {
			return nil, fmt.Errorf("%w: rename of inode %d: name it by its path", muster.ErrInvalid, c.File)
		}
		return &pb.Command{Command: &pb.Command_Rename{Rename: &pb.Rename{
			From: []byte(c.From), To: []byte(c.To), Overwrite: c.Overwrite,
		}}}, nil
	case muster.Delete:
		if c.File != 0 {
			return nil, fmt.Errorf("%w: delete of inode %d: name it by its path", muster.ErrInvalid, c.File)
		}
		return &pb.Command{Command: &pb.Command_Delete{Delete: &pb.Delete{
			Path: []byte(c.Path), Recursive: c.Recursive,
		}}}, nil
	case muster.SetAttr:
		return &pb.Command{Command: &pb.Command_SetAttr{SetAttr: setAttrToPB(c)}}, nil
	}
	return nil, fmt.Errorf("%w: %T is no command of a batch that a client applies", muster.ErrInvalid, c)
}

// ownersOf returns the names of a command that travel as text.
func ownersOf(c muster.Command) (owner, group string) {
	switch c := c.(type) {
	case muster.Mkdir:
		return c.Owner, c.Group
	case muster.Create:
		return c.Owner, c.Group
	case muster.Symlink:
		return c.Owner, c.Group
	case muster.SetAttr:
		if c.Owner != nil {
			owner = *c.Owner
		}
		if c.Group != nil {
			group = *c.Group
		}
	}
	return owner, group
}

func setAttrToPB(c muster.SetAttr) *pb.SetAttr {
	m := &pb.SetAttr{Path: []byte(c.Path), Owner: c.Owner, Group: c.Group, Mtime: c.MTime, Atime: c.ATime}
	if c.Mode != nil {
		mode := uint32(*c.Mode)
		m.Mode = &mode
	}
	return m
}

// CommandFromPB returns the command of a message. It refuses with muster.ErrInvalid a
// message without a command, which is what one of a newer client looks like, and values
// that no command has; the tree checks the rest.
func CommandFromPB(m *pb.Command) (muster.Command, error) {
	switch c := m.GetCommand().(type) {
	case *pb.Command_Mkdir:
		return mkdirFromPB(c.Mkdir)
	case *pb.Command_Create:
		return createFromPB(c.Create)
	case *pb.Command_Symlink:
		return symlinkFromPB(c.Symlink), nil
	case *pb.Command_Rename:
		return muster.Rename{From: string(c.Rename.GetFrom()), To: string(c.Rename.GetTo()), Overwrite: c.Rename.GetOverwrite()}, nil
	case *pb.Command_Delete:
		return muster.Delete{Path: string(c.Delete.GetPath()), Recursive: c.Delete.GetRecursive()}, nil
	case *pb.Command_SetAttr:
		return setAttrFromPB(c.SetAttr)
	}
	return nil, fmt.Errorf("%w: a command without content; it may be of a kind that is newer than this server", muster.ErrInvalid)
}

func mkdirFromPB(m *pb.Mkdir) (muster.Command, error) {
	mode, err := modeFromPB(m.GetMode())
	if err != nil {
		return nil, fmt.Errorf("mkdir %q: %w", m.GetPath(), err)
	}
	return muster.Mkdir{
		Path: string(m.GetPath()), Mode: mode, Parents: m.GetParents(),
		Owner: m.GetOwner(), Group: m.GetGroup(), MTime: m.Mtime,
	}, nil
}

func createFromPB(m *pb.Create) (muster.Command, error) {
	mode, err := modeFromPB(m.GetMode())
	if err != nil {
		return nil, fmt.Errorf("create %q: %w", m.GetPath(), err)
	}
	replication, err := replicationFromPB(m.GetReplication())
	if err != nil {
		return nil, fmt.Errorf("create %q: %w", m.GetPath(), err)
	}
	return muster.Create{
		Path: string(m.GetPath()), Mode: mode, Length: m.GetLength(), Replication: replication, BlockSize: m.GetBlockSize(),
		Blocks: blocksFromPB(m.GetBlocks()), Owner: m.GetOwner(), Group: m.GetGroup(), MTime: m.Mtime, ATime: m.Atime,
		Parents: m.GetParents(), Overwrite: m.GetOverwrite(),
	}, nil
}

func symlinkFromPB(m *pb.Symlink) muster.Command {
	return muster.Symlink{
		Path: string(m.GetPath()), Target: string(m.GetTarget()),
		Owner: m.GetOwner(), Group: m.GetGroup(), MTime: m.Mtime,
	}
}

func setAttrFromPB(m *pb.SetAttr) (muster.Command, error) {
	c := muster.SetAttr{Path: string(m.GetPath()), Owner: m.Owner, Group: m.Group, MTime: m.Mtime, ATime: m.Atime}
	if m.Mode != nil {
		mode, err := modeFromPB(*m.Mode)
		if err != nil {
			return nil, fmt.Errorf("setattr %q: %w", m.GetPath(), err)
		}
		c.Mode = &mode
	}
	return c, nil
}

// RefusalToPB returns the refusal of a batch, and false if err is none.
func RefusalToPB(err error) (*pb.Refusal, bool) {
	var refused *muster.CommandError
	if !errors.As(err, &refused) {
		return nil, false
	}
	code, text := ToStatus(refused.Err)
	return &pb.Refusal{Index: uint32(refused.Index), Code: code, Message: text}, true
}
