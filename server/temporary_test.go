package server_test

import (
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// TestATemporaryFileIsRemoved when nobody writes it any more, whatever is durable of it, while what it
// was to replace stays.
func TestATemporaryFileIsRemoved(t *testing.T) {
	in, _ := startWriting(t, server.Options{Leases: server.Leases{Lease: 100 * time.Millisecond}}, 3)
	in.apply(t, muster.Create{Path: "/f", Mode: 0o644})
	p := in.newPen(t, "")
	temporary := func(q *pb.StartWriteRequest) { q.Target, q.Overwrite = []byte("/f"), true }
	p.start("/.f.0._COPYING_", temporary)
	p.start("/.f.1._COPYING_", temporary)
	in.apply(t, muster.Rename{From: "/.f.1._COPYING_", To: "/g"})
	eventually(t, "both are gone", func() bool { return in.counter(t, "files_being_written") == 0 })
	for path, there := range map[string]bool{"/f": true, "/.f.0._COPYING_": false, "/.f.1._COPYING_": false, "/g": false} {
		_, err := in.Stat(root(t), &pb.PathRequest{Path: []byte(path)})
		if there != (err == nil) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestATemporaryFileThatCannotBecomeWhatItIsToBe is refused at once.
func TestATemporaryFileThatCannotBecomeWhatItIsToBe(t *testing.T) {
	in, _ := startWriting(t, server.Options{}, 3)
	in.apply(t, muster.Mkdir{Path: "/d", Mode: 0o1777}, muster.Create{Path: "/d/f", Mode: 0o666}, muster.Create{Path: "/d/temp", Mode: 0o666})
	p := in.newPen(t, "bob")
	for _, c := range []struct {
		path, target string
		overwrite    bool
		code         muster.Code
	}{
		{"/d/.t", "/d/f", true, muster.ErrPermission}, // it is sticky
		{"/d/.t", "/d/f", false, muster.ErrExists},
		{"/d/.t", "/d", true, muster.ErrIsDirectory},
		{"/d/.t", "/", true, muster.ErrIsDirectory},
		{"/d/.t", "/g", true, muster.ErrPermission},
		{"/d/.t", "/d/f/g", true, muster.ErrNotDirectory},
		{"/d/.t", "/none/g", true, muster.ErrNotFound},
		{"/d/.t", "relative", true, muster.ErrInvalid},
		{"/d/temp", "/d/g", true, muster.ErrExists}, // a temporary file replaces none
	} {
		p.sequence++
		_, err := in.StartWrite(p.ctx, &pb.StartWriteRequest{
			Client: p.client, Sequence: p.sequence, Path: []byte(c.path), Mode: 0o644, Target: []byte(c.target), Overwrite: c.overwrite,
		})
		wantCode(t, err, c.code)
	}
	if n := in.counter(t, "files_being_written"); n != 0 {
		t.Errorf("%v files are being written", n)
	}
}
