package rpc

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"storj.io/drpc/drpcmetadata"

	"github.com/muster-fs/muster"
)

// The keys of a call's metadata; others are ignored.
const (
	keyUser    = "user"
	keyGroups  = "groups"  // each followed by a NUL
	keyTimeout = "timeout" // whole milliseconds, decimal, at least 1
)

// The bounds of an identity in metadata.
const (
	maxPrincipalBytes = 255 // of a user's or group's name
	maxGroups         = 1024
)

// The bounds of a call's metadata, which is kept until the call ends. The longest identity
// takes half of the bytes.
const (
	maxMetadata      = 64 // pairs of key and value
	maxMetadataBytes = 512 << 10
)

// maxTimeout is what a longer timeout becomes; a deadline of a month is none.
const maxTimeout = 30 * 24 * time.Hour

type clientKey struct{}

// Credentials are an identity as calls carry it, encoded once for all of them. They do
// not change, so they are safe for concurrent use.
type Credentials struct {
	metadata []byte
	err      error // why the identity cannot be sent
}

// NewCredentials returns the credentials of an identity. One that cannot be sent fails
// the calls that are made with it, with muster.ErrUnauthenticated.
func NewCredentials(id muster.Identity) *Credentials {
	c := &Credentials{err: checkIdentity(id)}
	if c.err == nil {
		md := map[string]string{keyUser: id.User}
		if len(id.Groups) > 0 {
			md[keyGroups] = strings.Join(id.Groups, "\x00") + "\x00"
		}
		c.metadata, c.err = drpcmetadata.Encode(make([]byte, 0, 128), md)
	}
	return c
}

// Context says who makes the calls under the context.
func (c *Credentials) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// ClientContext is Context for an identity that makes few calls.
func ClientContext(ctx context.Context, id muster.Identity) context.Context {
	return NewCredentials(id).Context(ctx)
}

// callMetadata encodes what crosses the wire before a call: the identity and how much
// time is left. It returns nil if there is nothing to say.
func callMetadata(ctx context.Context) ([]byte, error) {
	var md []byte
	if c, ok := ctx.Value(clientKey{}).(*Credentials); ok {
		if c.err != nil {
			return nil, c.err
		}
		md = c.metadata // shared by calls
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return md, nil
	}
	left := time.Until(deadline)
	if left <= 0 {
		return nil, fmt.Errorf("%w before the call was made", muster.ErrDeadline)
	}
	ms := strconv.FormatInt(int64((left+time.Millisecond-1)/time.Millisecond), 10)
	own := append(make([]byte, 0, len(md)+64), md...)
	return drpcmetadata.Encode(own, map[string]string{keyTimeout: ms})
}

// checkMetadata refuses metadata past its bounds.
func checkMetadata(md map[string]string) error {
	if len(md) > maxMetadata {
		return fmt.Errorf("%w: metadata of %d keys before a call, at most %d", muster.ErrLimit, len(md), maxMetadata)
	}
	bytes := 0
	for key, value := range md {
		bytes += len(key) + len(value)
	}
	if bytes > maxMetadataBytes {
		return fmt.Errorf("%w: metadata of %d bytes before a call, at most %d", muster.ErrLimit, bytes, maxMetadataBytes)
	}
	return nil
}

// callTimeout reads the time that the caller gives the call; 0 is no bound.
func callTimeout(md map[string]string) (time.Duration, error) {
	text, ok := md[keyTimeout]
	if !ok {
		return 0, nil
	}
	ms, err := strconv.ParseUint(text, 10, 63)
	if err != nil || ms == 0 {
		return 0, fmt.Errorf("%w: timeout %.32q of the call; it is whole milliseconds, at least 1", muster.ErrInvalid, text)
	}
	return time.Duration(min(ms, uint64(maxTimeout/time.Millisecond))) * time.Millisecond, nil
}

// authenticate establishes who makes a call. It is the one place that does, and it
// believes what the metadata says.
func authenticate(md map[string]string) (muster.Identity, error) {
	user, ok := md[keyUser]
	if !ok {
		return muster.Identity{}, fmt.Errorf("%w: the call does not say who makes it", muster.ErrUnauthenticated)
	}
	id := muster.Identity{User: user}
	if groups, ok := strings.CutSuffix(md[keyGroups], "\x00"); ok {
		if n := strings.Count(groups, "\x00") + 1; n > maxGroups {
			return muster.Identity{}, tooManyGroups(user, n)
		}
		id.Groups = strings.Split(groups, "\x00")
	} else if md[keyGroups] != "" {
		return muster.Identity{}, fmt.Errorf("%w: the groups of user %.64q are damaged", muster.ErrUnauthenticated, user)
	}
	return id, checkIdentity(id)
}

func checkIdentity(id muster.Identity) error {
	if err := checkPrincipal("user", id.User); err != nil {
		return err
	}
	if len(id.Groups) > maxGroups {
		return tooManyGroups(id.User, len(id.Groups))
	}
	for _, group := range id.Groups {
		if err := checkPrincipal("group", group); err != nil {
			return err
		}
	}
	return nil
}

func tooManyGroups(user string, n int) error {
	return fmt.Errorf("%w: user %.64q has %d groups, at most %d", muster.ErrUnauthenticated, user, n, maxGroups)
}

// checkPrincipal says whether name may name a user or group: it ends up in owners, in
// listings and in logs.
func checkPrincipal(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: empty %s name", muster.ErrUnauthenticated, what)
	case len(name) > maxPrincipalBytes:
		return fmt.Errorf("%w: %s name %.64q... has %d bytes, at most %d", muster.ErrUnauthenticated, what, name, len(name), maxPrincipalBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %s name %q is not valid UTF-8", muster.ErrUnauthenticated, what, name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%w: %s name %q has a control character", muster.ErrUnauthenticated, what, name)
	}
	return nil
}

// Caller returns who makes the call that a handler got ctx for.
func Caller(ctx context.Context) (muster.Identity, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return muster.Identity{}, fmt.Errorf("%w: not the context of a call", muster.ErrUnauthenticated)
	}
	return c.caller, nil
}
