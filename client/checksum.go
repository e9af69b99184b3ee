package client

import "context"

// Checksum returns the CRC-32C of all of a file's bytes, that HDFS calls COMPOSITE-CRC32C. It
// is put together from what datanodes keep of each chunk: no data is read. Equal contents
// have equal ones, whatever their blocks are.
//
// Errors are those of Open and of ReadAt: muster.ErrNoData if the file is metadata only.
func (c *Client) Checksum(ctx context.Context, path string) (uint32, error) {
	f, err := c.Open(ctx, path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Checksum(ctx)
}

// Checksum returns the CRC-32C of all of the file's bytes, as Client.Checksum does.
func (f *File) Checksum(ctx context.Context) (uint32, error) {
	sum, err := f.file.Checksum(ctx)
	return sum, f.failure("checksum", err)
}
