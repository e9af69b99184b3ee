package namespace

import (
	"context"

	"github.com/muster-fs/muster"
)

type Tree struct{}

type Request struct {
	ID       muster.RequestID
	Caller   muster.Identity
	Commands []muster.Command
}

func Open(dir string, o Options) (*Tree, error)                              { panic("not yet") }
func (t *Tree) Close() error                                                 { panic("not yet") }
func (t *Tree) Apply(ctx context.Context, r Request) (muster.Applied, error) { panic("not yet") }
func (t *Tree) View() (*View, error)                                         { panic("not yet") }
func (t *Tree) Superuser(id *muster.Identity) bool                           { panic("not yet") }
func (t *Tree) Stats() Stats                                                 { panic("not yet") }
func (t *Tree) Fsck(ctx context.Context, report func(Problem) error) (FsckSummary, error) {
	panic("not yet")
}

// Stats are counters of a tree.
type Stats struct {
	Txid       uint64 // of the newest durable state
	Inodes     uint64 // attached and waiting for reclaim
	Reclaiming uint64 // detached trees that are not reclaimed yet
	Requests   uint64 // remembered request ids
	StoreBytes uint64 // on disk

	Views    uint64 // views taken, each by one read lock
	Gets     uint64 // point reads of the store
	Seeks    uint64 // positionings of store iterators
	Commits  uint64 // requests that were applied
	Refusals uint64 // requests that were refused
	Syncs    uint64 // waits for the disk; concurrent commits share one
}

type Problem struct {
	Kind    string
	ID      uint64
	Path    string
	Message string
}

type FsckSummary struct {
	Inodes, Directories, Files, Links, Reclaiming, Problems uint64
}

type View struct{}

func (v *View) Txid() uint64 { panic("not yet") }
func (v *View) Release()     { panic("not yet") }
func (v *View) Resolve(caller *muster.Identity, path string, follow bool) (Resolved, error) {
	panic("not yet")
}
func (v *View) NewReader(caller *muster.Identity) *Reader { panic("not yet") }

type Reader struct{}

func (r *Reader) Resolve(path string, follow bool) (Resolved, error)    { panic("not yet") }
func (r *Reader) Row(res *Resolved, row *muster.Row, blocks bool) error { panic("not yet") }
func (r *Reader) Scan(res *Resolved, after string, blocks bool) error   { panic("not yet") }
func (r *Reader) Next(row *muster.Row) bool                             { panic("not yet") }
func (r *Reader) Err() error                                            { panic("not yet") }
func (r *Reader) Heads(ids []uint64, heads []Head) error                { panic("not yet") }
func (r *Reader) Close()                                                { panic("not yet") }

type Head struct {
	MTime     int64
	ChangedAt uint64
}

type Resolved struct{}

func (r *Resolved) ID() uint64        { panic("not yet") }
func (r *Resolved) Kind() muster.Kind { panic("not yet") }
func (r *Resolved) Path() string      { panic("not yet") }
func checkOwner(what, s string) error { panic("not yet") }
