package rpc

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/muster-fs/muster"
)

// compressFrom is how many bytes a frame of rows must have for compression to pay.
const compressFrom = 4 << 10

// Compressor compresses frames of rows for clients that ask for it. It is safe for
// concurrent use.
type Compressor struct{ encoder *zstd.Encoder }

// NewCompressor returns a compressor. It takes memory with its first frame.
func NewCompressor() (*Compressor, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, fmt.Errorf("%w: make a compressor: %v", muster.ErrInternal, err)
	}
	return &Compressor{encoder}, nil
}

// Frame appends a frame to dst, compressed, and returns its size before that. A frame
// that gains nothing is returned as it is, with size 0.
func (c *Compressor) Frame(dst, frame []byte) (packed []byte, size uint32) {
	if len(frame) < compressFrom {
		return frame, 0
	}
	packed = c.encoder.EncodeAll(frame, dst)
	if len(packed)-len(dst) >= len(frame) {
		return frame, 0
	}
	return packed, uint32(len(frame))
}

// Expander is the other side of a Compressor. It is safe for concurrent use.
type Expander struct {
	decoder *zstd.Decoder
	max     int
}

// NewExpander returns an expander of frames that have at most max bytes.
func NewExpander(max int) (*Expander, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(uint64(max)), zstd.WithDecoderConcurrency(0))
	if err != nil {
		return nil, fmt.Errorf("%w: make an expander: %v", muster.ErrInternal, err)
	}
	return &Expander{decoder, max}, nil
}

// Frame returns the frame that b is of, given the size that came with it; 0 says that b
// is the frame. It takes no more memory than size says, and that only up to the most;
// what does not fit is muster.ErrCorrupt.
func (e *Expander) Frame(b []byte, size uint32) ([]byte, error) {
	switch {
	case size == 0:
		return b, nil
	case int64(size) > int64(e.max):
		return nil, fmt.Errorf("%w: a compressed frame of %d bytes, at most %d", muster.ErrCorrupt, size, e.max)
	}
	frame, err := e.decoder.DecodeAll(b, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("%w: compressed frame: %v", muster.ErrCorrupt, err)
	}
	if len(frame) != int(size) {
		return nil, fmt.Errorf("%w: a compressed frame has %d bytes and should have %d", muster.ErrCorrupt, len(frame), size)
	}
	return frame, nil
}
