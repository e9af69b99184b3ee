package token_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster/blocks/token"
)

// holder is a struct as others have it, with fields of which package fmt cannot call the methods.
type holder struct {
	secret token.Secret
	key    token.Key
	keys   []token.Key
	ring   *token.Ring
	rings  map[string]*token.Ring
	signer *token.Signer
	Any    any
}

// TestSecretsArePrintedByNothing prints all that has a secret in all ways there are, and looks for it in all
// ways to write it.
func TestSecretsArePrintedByNothing(t *testing.T) {
	raw := []byte("\xf1\xe2\xd3\xc4 a secret of 32 bytes \x01\x02\x03\x04\x05\x06")[:token.SecretBytes]
	secret, err := token.ParseSecret(raw)
	if err != nil {
		t.Fatal(err)
	}
	k := token.Key{ID: 5, Secret: secret, Expires: now.Add(time.Hour)}
	r := ring(t, k)
	signer, err := r.Signer("alice", token.Read, now, 0)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := token.Verify(r, signer.Token(block, 1, 1), now, block, token.Read, "alice")
	if err != nil {
		t.Fatal(err)
	}
	h := holder{secret, k, []token.Key{k}, r, map[string]*token.Ring{"a": r}, signer, k}
	for _, v := range []any{secret, &secret, k, &k, []token.Key{k}, r, *signer, signer, tok, tok.Grant, h, &h, []any{h, &h}} {
		for _, text := range printed(t, v) {
			for name, form := range forms(raw) {
				if strings.Contains(text, form) {
					t.Errorf("%T prints %s of its secret: %q", v, name, text)
				}
			}
		}
	}
	if got := fmt.Sprintf("%+v", k); !strings.Contains(got, "{ID:5 Secret:(secret) Expires:") {
		t.Errorf("a key prints as %s", got)
	}
	if got := fmt.Sprint(r); got != "block keys 5" {
		t.Errorf("a ring prints as %s", got)
	}
}

// printed is v as it is printed and logged.
func printed(t *testing.T, v any) (texts []string) {
	t.Helper()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b", "%o", "%c", "%U", "%p", "%t", "%08.3f"} {
		texts = append(texts, fmt.Sprintf(verb, v), fmt.Sprintf(verb, &v))
	}
	texts = append(texts, fmt.Sprintln(v), fmt.Errorf("it is %v", v).Error())
	if encoded, err := json.Marshal(v); err == nil {
		texts = append(texts, string(encoded))
	}
	var out bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).With("with", v).Info("message", "value", v, slog.Group("group", "nested", v, "list", []any{v}))
	}
	return append(texts, out.String())
}

// forms are the ways to write bytes, or a part that nobody could take for chance.
func forms(raw []byte) map[string]string {
	part := raw[:8]
	list := func(format, between string) string {
		texts := make([]string, len(part))
		for i, b := range part {
			texts[i] = fmt.Sprintf(format, b)
		}
		return strings.Join(texts, between)
	}
	return map[string]string{
		"bytes": string(part[4:]), "hex": hex.EncodeToString(part), "upper hex": strings.ToUpper(hex.EncodeToString(part)),
		"base64": base64.StdEncoding.EncodeToString(raw)[:10], "URL base64": base64.URLEncoding.EncodeToString(raw)[:10],
		"numbers": list("%d", " "), "numbers of JSON": list("%d", ","), "Go": list("%#x", ", "), "octal": list("%o", " "), "binary": list("%b", " "),
	}
}

func TestSecretsAreMadeAnew(t *testing.T) {
	a, b := token.NewSecret(), token.NewSecret()
	again, err := token.ParseSecret(a.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	var none token.Secret
	switch {
	case a.Equal(b) || !a.Equal(again) || a.Equal(none) || none.Equal(a) || !none.Equal(none):
		t.Error("secrets do not compare by their bytes")
	case !none.IsZero() || a.IsZero() || none.Reveal() != nil:
		t.Error("the zero secret is none")
	}
	a.Reveal()[0]++
	if !a.Equal(again) {
		t.Error("who got a secret's bytes has changed it")
	}
}
