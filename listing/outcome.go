package listing

import (
	"strconv"
	"strings"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// maxMessage bounds the text of an outcome, in bytes: a page of outcomes must fit into a
// message however long the paths are.
const maxMessage = 1024

// succeed ends the current path well.
func (c *collector) succeed(r *namespace.Reader, res *namespace.Resolved) {
	var changedAt uint64
	if res.Kind() == muster.Directory {
		at, known := r.ChangedAt(res)
		if changedAt = at; !known {
			c.heads.want(res.ID(), ownHead, len(c.outcomes))
		}
	}
	c.end(res.ID(), changedAt, muster.OK, "")
}

// fail ends the current path with the failure's code and text, if it is one of a path;
// id is the inode's, 0 if the path does not lead to one. Any other failure is the
// call's and is returned.
func (c *collector) fail(path string, id uint64, err error) error {
	code := muster.CodeOf(err)
	if !ofPath(code) {
		return err
	}
	c.end(id, 0, code, describe(path, err))
	return nil
}

// end adds the outcome of the current path and leaves the path behind.
func (c *collector) end(id, changedAt uint64, code muster.Code, message string) {
	c.outcomes = append(c.outcomes, muster.Outcome{})
	o := &c.outcomes[len(c.outcomes)-1] // not put together elsewhere and copied: this is done for each path
	o.Index, o.Code, o.Message, o.Rows = c.position.index, code, message, c.position.rows
	o.ID, o.ChangedAt, o.Txid = id, changedAt, c.txid
	c.outcomeSize += outcomeBytes + len(message)
	c.position.finish()
	c.fresh = false
}

// ofPath says whether a failure concerns the path that it met alone.
func ofPath(code muster.Code) bool {
	switch code {
	case muster.ErrNotFound, muster.ErrNotDirectory, muster.ErrPermission, muster.ErrInvalid,
		muster.ErrLimit, muster.ErrLinkLoop, muster.ErrCorrupt, muster.ErrChanged:
		return true
	}
	return false
}

// describe is the failure's text, with the path in front unless the text names it.
func describe(path string, err error) string {
	text, quoted := err.Error(), quote(path)
	if !strings.Contains(text, quoted) {
		text = quoted + ": " + text
	}
	return shorten(text, maxMessage)
}

// quote quotes a path for a message. The middle of a long one is left out: it is the
// beginning and the end that tell paths apart.
func quote(path string) string {
	const most = 256
	if len(path) > most {
		return strconv.Quote(path[:most/2]) + "..." + strconv.Quote(path[len(path)-most/2:])
	}
	return strconv.Quote(path)
}

// shorten makes text fit for the wire: bounded and valid UTF-8.
func shorten(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
