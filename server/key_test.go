package server

import (
	"bytes"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
)

// FuzzKeyFile: a key file gives the key that it says, raw or as text, or an error that names it.
func FuzzKeyFile(f *testing.F) {
	key := bytes.Repeat([]byte{0xc7}, keyBytes)
	text := hex.EncodeToString(key)
	for _, seed := range []string{
		"", string(key), text, strings.ToUpper(text), " \t" + text + "\r\n", text + strings.Repeat("\n", keyBytes*2),
		text + strings.Repeat("\n", keyBytes*2+1), text[1:], text + "0", text + "00", text[:32], "\n" + string(key),
		text[:32] + "\n" + text[32:], strings.Repeat("g", 2*keyBytes), "\ufeff" + text, strings.Repeat("\x00", 4096),
	} {
		f.Add([]byte(seed))
	}
	log, file := slog.New(slog.DiscardHandler), filepath.Join(f.TempDir(), keyName)
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		var want []byte
		if len(content) == keyBytes {
			want = content
		} else if key, err := hex.DecodeString(strings.TrimSpace(string(content))); err == nil && len(key) == keyBytes && len(content) <= 4*keyBytes {
			want = key
		}
		got, err := readKey(file, log)
		if !bytes.Equal(got, want) || (err == nil) != (want != nil) {
			t.Fatalf("key %x, %v, want %x", got, err, want)
		}
		if err != nil && (!errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), file)) {
			t.Errorf("%v does not name the file", err)
		}
	})
}
