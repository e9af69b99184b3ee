package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/muster-fs/muster/client"
)

func TestFsckNamesProblemsAndFails(t *testing.T) {
	problem := client.Problem{Kind: "row", ID: 7, Path: "/a\nb", Message: "it is not there"}
	summary := client.FsckSummary{Inodes: 6, Directories: 3, Files: 2, Links: 1, Reclaiming: 4, Problems: 1}
	for _, test := range []struct {
		asJSON bool
		want   string
	}{
		{false, "row: inode 7, \"/a\\nb\": it is not there\n6 inodes (3 directories, 2 files, 1 links), 4 being reclaimed, 1 problems\n"},
		{true, `{"kind":"row","inode":7,"path":"/a\nb","message":"it is not there"}` + "\n" +
			`{"inodes":6,"directories":3,"files":2,"links":1,"reclaiming":4,"problems":1}` + "\n"},
	} {
		out := new(bytes.Buffer)
		a := &app{stdout: out, verb: "fsck"}
		if err := a.printProblem(problem, test.asJSON); err != nil {
			t.Fatal(err)
		}
		if err := a.printChecked(summary, test.asJSON); err != nil {
			t.Fatal(err)
		}
		if out.String() != test.want {
			t.Errorf("printed\n%swant\n%s", out, test.want)
		}
		if code := a.exitCode(context.Background(), nil); code != exitFailed {
			t.Errorf("exit code %d", code)
		}
	}
}
