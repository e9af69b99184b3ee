package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
)

// FileServer serves ranges of one file over bare TCP: a request is an offset and a length, the
// answer is the bytes. It is the limit that reads of blocks are held against: the same pattern, with
// nothing around it.
type FileServer struct {
	File *os.File
}

// rangeHead is a request of a FileServer: offset u64 and length u32, little-endian.
const rangeHead = 12

// Serve answers until ctx ends, and closes the listener.
func (s *FileServer) Serve(ctx context.Context, lis net.Listener) error {
	serving, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	defer context.AfterFunc(serving, func() { _ = lis.Close() })()
	for {
		conn, err := lis.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		running.Go(func() {
			defer context.AfterFunc(serving, func() { _ = conn.Close() })()
			defer func() { _ = conn.Close() }() // the client has gone
			_ = s.answer(conn)
		})
	}
}

// answer answers the requests of a connection. A long range is sent in pieces, as a stream would be.
func (s *FileServer) answer(conn net.Conn) error {
	var head [rangeHead]byte
	buffer := make([]byte, 1<<20)
	for {
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		offset, left := int64(binary.LittleEndian.Uint64(head[:])), int(binary.LittleEndian.Uint32(head[8:]))
		for left > 0 {
			n, err := s.File.ReadAt(buffer[:min(left, len(buffer))], offset)
			if n == 0 {
				return errors.Join(err, io.ErrUnexpectedEOF)
			}
			if _, err := conn.Write(buffer[:n]); err != nil {
				return err
			}
			offset += int64(n)
			left -= n
		}
	}
}

// rawFile reads a file of a FileServer. Positioned reads share the connections of a pool, one
// for each at a time; the sequential reader has its own, on which the
// server sends on.
type rawFile struct {
	address string
	size    int64

	idle chan net.Conn // connections that nobody uses

	conn net.Conn // of the sequential reader
	at   int64    // where it is
}

func newRawFile(address string, size int64, connections int) *rawFile {
	return &rawFile{address: address, size: size, idle: make(chan net.Conn, connections)}
}

func (f *rawFile) take() (net.Conn, error) {
	select {
	case conn := <-f.idle:
		return conn, nil
	default:
		return net.Dial("tcp", f.address)
	}
}

// ReadAt reads a range that is in the file.
func (f *rawFile) ReadAt(p []byte, offset int64) (int, error) {
	conn, err := f.take()
	if err != nil {
		return 0, err
	}
	if err := ask(conn, offset, len(p)); err != nil {
		return 0, errors.Join(err, conn.Close())
	}
	n, err := io.ReadFull(conn, p)
	if err != nil {
		return n, errors.Join(err, conn.Close())
	}
	select {
	case f.idle <- conn:
	default:
		err = conn.Close()
	}
	return n, err
}

func ask(conn net.Conn, offset int64, length int) error {
	var head [rangeHead]byte
	binary.LittleEndian.PutUint64(head[:], uint64(offset))
	binary.LittleEndian.PutUint32(head[8:], uint32(length))
	_, err := conn.Write(head[:])
	return err
}

// Read reads on, and begins again at the end.
func (f *rawFile) Read(p []byte) (n int, err error) {
	if f.conn == nil {
		if f.conn, err = net.Dial("tcp", f.address); err != nil {
			return 0, err
		}
	}
	if f.at%f.size == 0 { // all of it is on its way from here on
		if err := ask(f.conn, 0, int(f.size)); err != nil {
			return 0, err
		}
		f.at = 0
	}
	n, err = io.ReadFull(f.conn, p[:min(int64(len(p)), f.size-f.at)])
	f.at += int64(n)
	return n, err
}

// Close closes the connections. Nobody reads any more.
func (f *rawFile) Close() error {
	var errs []error
	if f.conn != nil {
		errs = append(errs, f.conn.Close())
	}
	for {
		select {
		case conn := <-f.idle:
			errs = append(errs, conn.Close())
		default:
			return errors.Join(errs...)
		}
	}
}
