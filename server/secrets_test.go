package server_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// TestOnlyTheLocationServiceKeepsKeys: of a cluster in three processes and of one in one, the secrets are
// in the store of the location service and nowhere else: in no file of the others, and in no log.
func TestOnlyTheLocationServiceKeepsKeys(t *testing.T) {
	var log logBuffer
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	key := keyFile(t, 1)
	service := startLocations(t, server.LocationsOptions{Dir: t.TempDir(), KeyFile: key, Tokens: true, Registry: quick(), Logger: logger})
	apart := start(t, server.Options{KeyFile: key, Locations: server.Locating{Server: service.Addr().String()}, Logger: logger})
	own := start(t, server.Options{KeyFile: key, Locations: server.Locating{Tokens: true, Registry: quick()}, Logger: logger})
	join(t, service.Addr().String(), key, 3).fillContainers(t, service.Registry(), 2)
	join(t, own.Addr().String(), key, 3).fillContainers(t, own.Registry(), 2)
	for name, c := range map[string]struct {
		in       *instance
		registry *registry.Registry
		secret   string // folder that has the keys
	}{
		"apart": {apart, service.Registry(), ""}, "own": {own, own.Registry(), filepath.Join(own.folder, "locations")},
	} {
		c.in.makeFile(t, "/f", 1, 2)
		r, err := c.in.Open(root(t), &pb.OpenRequest{Path: []byte("/f")})
		if err != nil || len(r.Located.Macs) != 2*token.MACBytes {
			t.Fatalf("%s: %v, %v", name, r, err)
		}
		forms := map[string]string{}
		keys, err := c.registry.BlockKeys(t.Context())
		if err != nil || len(keys.Keys) != 1 {
			t.Fatalf("%s: %+v, %v", name, keys, err)
		}
		for what, raw := range map[string][]byte{
			"secret": keys.Keys[0].Secret.Reveal(), "signature": r.Located.Macs[:token.MACBytes], "other signature": r.Located.Macs[token.MACBytes:],
		} {
			forms[what], forms[what+" in hex"] = string(raw), hex.EncodeToString(raw)
			forms[what+" in base64"], forms[what+" in numbers"] = base64.StdEncoding.EncodeToString(raw)[:40], strings.Trim(fmt.Sprint(raw), "[]")
		}
		searchFiles(t, c.in.folder, c.secret, forms)
		for what, form := range forms {
			if strings.Contains(string(log.bytes()), form) {
				t.Errorf("%s: the %s is in the log", name, what)
			}
		}
	}
}

// searchFiles looks for texts in all files of a folder but those below except, where the secret itself has to be.
func searchFiles(t *testing.T, dir, except string, forms map[string]string) {
	t.Helper()
	kept := except == ""
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		below := except != "" && strings.HasPrefix(path, except)
		kept = kept || below && strings.Contains(string(b), forms["secret"])
		for what, form := range forms {
			if strings.Contains(string(b), form) && !(below && what == "secret") {
				t.Errorf("the %s is in %s", what, path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !kept {
		t.Errorf("the secret is not in %s, where this test could have found it", except)
	}
}

// TestKeysAreForServersOfTheClusterAlone: who has not proven its key gets none, whoever they say they are.
func TestKeysAreForServersOfTheClusterAlone(t *testing.T) {
	key := keyFile(t, 1)
	service := startLocations(t, server.LocationsOptions{KeyFile: key, Tokens: true})
	own := start(t, server.Options{KeyFile: key, Locations: server.Locating{Tokens: true}})
	for name, address := range map[string]string{"apart": service.Addr().String(), "own": own.Addr().String()} {
		for _, role := range []string{rpc.RoleNamespace, rpc.RoleDatanode} {
			reply, err := pb.NewDRPCLocationsClient(peers(t, address, key, role)).BlockKeys(t.Context(), &pb.BlockKeysRequest{})
			if err != nil || !reply.Enabled || len(reply.Keys) != 1 || len(reply.Keys[0].Secret) != token.SecretBytes || reply.RefreshMs != time.Minute.Milliseconds() {
				t.Errorf("%s as %s: %d keys, %v", name, role, len(reply.GetKeys()), err)
			}
		}
		user := rpc.NewPool(address, rpc.PoolOptions{})
		for what, pool := range map[string]*rpc.Pool{"a user": user, "another key": peers(t, address, keyFile(t, 2), rpc.RoleDatanode)} {
			reply, err := pb.NewDRPCLocationsClient(pool).BlockKeys(root(t), &pb.BlockKeysRequest{})
			if !errors.Is(err, muster.ErrUnauthenticated) || reply != nil {
				t.Errorf("%s by %s: %v, %v", name, what, reply, err)
			}
		}
		_ = user.Close()
	}
	without := startLocations(t, server.LocationsOptions{KeyFile: key})
	reply, err := pb.NewDRPCLocationsClient(peers(t, without.Addr().String(), key, rpc.RoleDatanode)).BlockKeys(t.Context(), &pb.BlockKeysRequest{})
	if err != nil || reply.Enabled || len(reply.Keys) != 0 || reply.RefreshMs <= 0 {
		t.Errorf("without tokens: %v, %v", reply, err)
	}
}

// TestADatanodeAsksForAKeyThatItDoesNotKnow, and so takes tokens by one that was made since it asked last.
func TestADatanodeAsksForAKeyThatItDoesNotKnow(t *testing.T) {
	var passed atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	in := start(t, server.Options{Locations: server.Locating{Tokens: true, Registry: registry.Options{Now: now}}})
	n := startNode(t, datanodeOptions(in, t.TempDir()))
	ring, _ := in.ring(t)
	ctx, id := as(t, "ann"), muster.BlockID{Container: 1, LocalID: 1}
	n.put(ctx, t, id, sign(t, ring, "ann", token.Write, id, 5000, tokenFile), tokenFile, data(1, 1000))
	old := sign(t, ring, "ann", token.Read, id, 1000, tokenFile)
	passed.Store(int64(25 * time.Hour))
	in.ring(t) // key 2 is made
	passed.Store(int64(26 * time.Hour))
	ring, _ = in.ring(t) // it signs
	fresh := sign(t, ring, "ann", token.Read, id, 1000, tokenFile)
	if old[2] != 1 || fresh[2] != 2 {
		t.Fatalf("signed by keys %d and %d", old[2], fresh[2])
	}
	for {
		got, err := n.get(ctx, id, fresh, 0, 10)
		if err == nil && len(got) == 10 {
			break
		}
		// For a second it does not ask again.
		if !errors.Is(err, muster.ErrUnauthenticated) || !strings.Contains(err.Error(), "cannot find the signing key") {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if _, err := n.get(ctx, id, old, 0, 10); err != nil {
		t.Errorf("a token by the key before: %v", err)
	}
}
