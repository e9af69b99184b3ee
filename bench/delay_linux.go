package bench

import (
	"cmp"
	"context"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timer is an alarm by a timer of the kernel. On Linux an idle Go program waits in whole
// milliseconds, which is too rough for half of a round trip.
type timer struct {
	file *os.File
	conn syscall.RawConn // of file
}

func systemAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return sleeper{}
	}
	file := os.NewFile(uintptr(fd), "timer")
	conn, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return sleeper{}
	}
	return timer{file, conn}
}

func (t timer) wait(ctx context.Context, d time.Duration) {
	if t.set(d) == nil {
		var expirations [8]byte
		if _, err := t.file.Read(expirations[:]); err == nil {
			return
		}
	}
	sleeper{}.wait(ctx, d) // not at all, if ctx has ended and so closed the timer
}

func (t timer) set(d time.Duration) error {
	var failed error
	err := t.conn.Control(func(fd uintptr) {
		failed = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
	})
	return cmp.Or(err, failed)
}

func (t timer) close() { _ = t.file.Close() }
