package bench

import (
	"context"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc/pb"
)

// The arms, in their order.
const (
	steps resolveArm = iota
	once
)

// resolveArm is an arm: what it does, and the call of the server that does it.
type resolveArm int

var resolveArms = [...]struct {
	name string
	open opener
	call func(pb.DRPCNamespaceClient) func(context.Context, *pb.OpenRequest) (*pb.LocatedReply, error)
}{
	steps: {"steps", openBySteps, func(c pb.DRPCNamespaceClient) func(context.Context, *pb.OpenRequest) (*pb.LocatedReply, error) {
		return c.Lookup
	}},
	once: {"once", openOnce, func(c pb.DRPCNamespaceClient) func(context.Context, *pb.OpenRequest) (*pb.LocatedReply, error) {
		return c.Open
	}},
}

// opener opens a file for a caller in a view.
type opener func(view *namespace.View, caller *muster.Identity, path string, row *muster.Row, reply func(*muster.Row)) error

// openOnce resolves the path once, and makes all else from what it found.
func openOnce(view *namespace.View, caller *muster.Identity, path string, row *muster.Row, reply func(*muster.Row)) error {
	r := view.NewReader(caller)
	defer r.Close()
	res, err := r.Resolve(path, true)
	if err != nil {
		return err
	}
	if err := check(r, &res); err != nil {
		return err
	}
	return answer(r, &res, row, reply)
}

// openBySteps resolves the path in each step, by a reader that knows of no other step: to know
// whether there is a file that the caller may read, and to read it. Both see one view.
func openBySteps(view *namespace.View, caller *muster.Identity, path string, row *muster.Row, reply func(*muster.Row)) error {
	if err := checkFile(view, caller, path); err != nil {
		return err
	}
	r := view.NewReader(caller)
	defer r.Close()
	res, err := r.Resolve(path, true)
	if err != nil {
		return err
	}
	return answer(r, &res, row, reply)
}

func checkFile(view *namespace.View, caller *muster.Identity, path string) error {
	r := view.NewReader(caller)
	defer r.Close()
	res, err := r.Resolve(path, true)
	if err != nil {
		return err
	}
	return check(r, &res)
}

// check says whether what a path leads to is a file that the caller may read.
func check(r *namespace.Reader, res *namespace.Resolved) error {
	if res.Kind() != muster.File {
		return muster.ErrIsDirectory
	}
	return r.CheckRead(res)
}

// answer reads status and blocks, which are valid while reply runs.
func answer(r *namespace.Reader, res *namespace.Resolved, row *muster.Row, reply func(*muster.Row)) error {
	if err := r.Row(res, row, true); err != nil {
		return err
	}
	reply(row)
	return nil
}
