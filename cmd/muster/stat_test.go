package main

import (
	"testing"

	"github.com/muster-fs/muster"
)

func TestStatSaysThatAFileIsBeingWritten(t *testing.T) {
	var r row
	r.Kind = muster.File
	if got := kindText(&r); got != "regular empty file" {
		t.Error(got)
	}
	if r.Flags = muster.FlagWriting; kindText(&r) != "file being written" {
		t.Error(kindText(&r))
	}
}
