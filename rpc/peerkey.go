package rpc

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/muster-fs/muster"
)

// The roles of peers: what a process that knows the cluster key says it is.
const (
	RoleNamespace = "namespace"
	RoleLocations = "locations"
	RoleDatanode  = "datanode"
)

func knownRole(role string) bool {
	return role == RoleNamespace || role == RoleLocations || role == RoleDatanode
}

// ClusterKeyBytes is the length of a cluster key.
const ClusterKeyBytes = 32

// The sizes of what crosses the wire to prove a key.
const (
	nonceBytes = 32
	proofBytes = sha256.Size
)

// peerKeyLabel is what the key of proofs is derived for. Its number is the proof's version.
const peerKeyLabel = "muster peer proof 1"

// PeerKey proves that its holder knows the cluster key. It is derived from that key, which
// it does not give away, nor itself: it prints as its name alone.
type PeerKey struct{ secret [sha256.Size]byte }

// NewPeerKey derives the key of proofs from a cluster key of ClusterKeyBytes.
func NewPeerKey(cluster []byte) (*PeerKey, error) {
	if len(cluster) != ClusterKeyBytes {
		return nil, fmt.Errorf("%w: a cluster key of %d bytes; it has %d", muster.ErrInvalid, len(cluster), ClusterKeyBytes)
	}
	secret, err := hkdf.Key(sha256.New, cluster, nil, peerKeyLabel, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("%w: derive a key: %v", muster.ErrInternal, err)
	}
	return &PeerKey{secret: [sha256.Size]byte(secret)}, nil
}

// Format prints the key as its name, whatever the verb.
func (k *PeerKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("(peer key)")) }

// MarshalText gives encoders the name, too.
func (k *PeerKey) MarshalText() ([]byte, error) { return []byte("(peer key)"), nil }

// The sides of a proof: so none can be sent back to who made it.
const (
	clientSide = "client"
	serverSide = "server"
)

// proof is what one side of a connection shows, after both have named a nonce and the
// client its role. Each part goes in behind its length.
func (k *PeerKey) proof(side, role string, serverNonce, clientNonce []byte) []byte {
	mac := hmac.New(sha256.New, k.secret[:])
	for _, part := range [][]byte{[]byte(side), []byte(role), serverNonce, clientNonce} {
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(part)))
		mac.Write(length[:])
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// proves says, in constant time, whether got is the proof.
func (k *PeerKey) proves(got []byte, side, role string, serverNonce, clientNonce []byte) bool {
	return hmac.Equal(got, k.proof(side, role, serverNonce, clientNonce))
}
