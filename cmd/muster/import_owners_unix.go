//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// fileOwner returns the numbers of owner and group.
func fileOwner(info fs.FileInfo) (uid, gid uint32, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return stat.Uid, stat.Gid, true
}
