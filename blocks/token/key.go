package token

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"time"

	"github.com/muster-fs/muster"
)

// SecretBytes is the size of a key's secret.
const SecretBytes = 32

// Secret is what a key signs with. It is printed by nothing: formats of every kind, logs and encoders
// get a mark instead. The zero value is none.
type Secret struct {
	// Where fmt can't call methods, in unexported fields of others, it follows one pointer at most.
	box *box
}

type box struct{ bytes *[SecretBytes]byte }

func newSecret() Secret { return Secret{&box{new([SecretBytes]byte)}} }

// NewSecret makes a secret that nobody can guess.
func NewSecret() Secret {
	s := newSecret()
	_, _ = rand.Read(s.box.bytes[:]) // it never fails: crypto/rand ends the process instead
	return s
}

// ParseSecret takes a secret from its bytes, which it copies.
func ParseSecret(b []byte) (Secret, error) {
	if len(b) != SecretBytes {
		return Secret{}, fmt.Errorf("%w: a secret of %d bytes; it has %d", muster.ErrCorrupt, len(b), SecretBytes)
	}
	s := newSecret()
	copy(s.box.bytes[:], b)
	return s, nil
}

// Reveal returns a copy of the bytes, for the store of the location service and for its
// answer to other servers. It is nil of the zero value.
func (s Secret) Reveal() []byte {
	if s.box == nil {
		return nil
	}
	return append([]byte(nil), s.box.bytes[:]...)
}

// IsZero says whether there is none.
func (s Secret) IsZero() bool { return s.box == nil }

// Equal compares in constant time.
func (s Secret) Equal(other Secret) bool {
	if s.box == nil || other.box == nil {
		return s.box == other.box
	}
	return subtle.ConstantTimeCompare(s.box.bytes[:], other.box.bytes[:]) == 1
}

const redacted = "(secret)"

// Format writes a mark, whatever the verb is.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// String returns a mark.
func (Secret) String() string { return redacted }

// LogValue returns a mark.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns a mark, for JSON and YAML.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Key signs tokens, which name it by its id.
type Key struct {
	ID      uint32 // from 1, counting up
	Secret  Secret
	Expires time.Time // no token is valid for longer
}

// check says what a key lacks.
func (k *Key) check() error {
	switch {
	case k.ID == 0:
		return fmt.Errorf("%w: block key 0", muster.ErrCorrupt)
	case k.Secret.IsZero():
		return fmt.Errorf("%w: block key %d has no secret", muster.ErrCorrupt, k.ID)
	}
	return nil
}
