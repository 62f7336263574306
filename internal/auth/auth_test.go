// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"glovebox/internal/auth"
)

func TestKeysAreParsedAndDiffer(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 100 {
		text, id, hash := auth.NewKey()
		gotID, gotHash, err := auth.ParseKey(text)
		if err != nil || gotID != id || !gotHash.Equal(hash) || seen[id] || !strings.HasPrefix(text, auth.Prefix+id+"_") {
			t.Fatalf("%s: id %s, %v", text, gotID, err)
		}
		seen[id] = true
	}
}

// TestMistypedKeys: a key with one character changed, lost, doubled or swapped is told from one that was never made.
func TestMistypedKeys(t *testing.T) {
	t.Parallel()
	text, _, _ := auth.NewKey()
	mistyped := []string{"", "x", auth.Prefix, text + "0", " " + text, strings.ToUpper(text), "Bearer " + text}
	for i := range text {
		other := "0"
		if text[i] == '0' {
			other = "1"
		}
		mistyped = append(mistyped, text[:i]+other+text[i+1:], text[:i]+text[i+1:], text[:i]+text[i:i+1]+text[i:])
		if i > 0 && text[i] != text[i-1] {
			mistyped = append(mistyped, text[:i-1]+text[i:i+1]+text[i-1:i]+text[i+1:])
		}
	}
	for _, wrong := range mistyped {
		if _, _, err := auth.ParseKey(wrong); !errors.Is(err, auth.ErrMalformed) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	text, _, _ := auth.NewKey()
	f.Add(text)
	f.Add("gbx__")
	f.Fuzz(func(t *testing.T, text string) {
		if id, _, err := auth.ParseKey(text); err == nil && !strings.HasPrefix(text, auth.Prefix+id+"_") {
			t.Errorf("%q has the id %q", text, id)
		}
	})
}

func TestScopes(t *testing.T) {
	t.Parallel()
	if scopes, err := auth.ParseScopes(nil); err != nil || len(scopes) != 3 {
		t.Errorf("default: %v, %v", scopes, err)
	}
	if scopes, err := auth.ParseScopes([]string{"run", " admin", "run"}); err != nil || len(scopes) != 2 {
		t.Errorf("twice: %v, %v", scopes, err)
	}
	if _, err := auth.ParseScopes([]string{"root"}); err == nil || !strings.Contains(err.Error(), "sandboxes") {
		t.Errorf("unknown: %v", err)
	}
}

func TestTenantNames(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{
		"default": true, "a": true, "team-2": true, strings.Repeat("a", auth.MaxName): true,
		"": false, "-a": false, "a-": false, "A": false, "a b": false, "../x": false, "ä": false, strings.Repeat("a", auth.MaxName+1): false,
	} {
		if auth.ValidTenant(name) != valid {
			t.Errorf("%q: valid %v, want %v", name, !valid, valid)
		}
	}
}

// keys is a store of one key.
type keys struct {
	key  auth.Key
	used int
	err  error
	// full is what writing says.
	full error
}

func (k *keys) Key(_ context.Context, id string) (auth.Key, error) {
	if k.err != nil || id != k.key.ID {
		return auth.Key{}, errors.Join(k.err, auth.ErrUnknown)
	}
	return k.key, nil
}

func (k *keys) Used(_ context.Context, _ string, at time.Time) error {
	k.used++
	if k.full == nil {
		k.key.LastUsed = at
	}
	return k.full
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	text, id, hash := auth.NewKey()
	stranger, _, _ := auth.NewKey()
	const operator = "an-operators-own-token"
	broken := errors.New("the store is gone")
	for name, c := range map[string]struct {
		token  string
		change func(*keys)
		want   error
		tenant string
	}{
		"a key":                  {token: text, tenant: "acme"},
		"the operator's token":   {token: operator, tenant: auth.DefaultTenant},
		"nothing":                {want: auth.ErrMissing},
		"a wrong token":          {token: "an-operators-own-tokem", want: auth.ErrMalformed},
		"a key of another place": {token: stranger, want: auth.ErrUnknown},
		"the id of another key":  {token: text, change: func(k *keys) { k.key.Hash[0] ^= 1 }, want: auth.ErrUnknown},
		"revoked":                {token: text, change: func(k *keys) { k.key.Revoked = now.Add(-time.Hour) }, want: auth.ErrRevoked},
		"expired this moment":    {token: text, change: func(k *keys) { k.key.Expires = now }, want: auth.ErrExpired},
		"about to expire":        {token: text, change: func(k *keys) { k.key.Expires = now.Add(1) }, tenant: "acme"},
		"a full disk":            {token: text, change: func(k *keys) { k.full = broken }, tenant: "acme"},
		"a store that is gone":   {token: text, change: func(k *keys) { k.err = broken }, want: broken},
	} {
		k := &keys{key: auth.Key{ID: id, Tenant: "acme", Hash: hash, Scopes: auth.DefaultScopes()}}
		if c.change != nil {
			c.change(k)
		}
		a := &auth.Authenticator{Keys: k, Token: operator, Now: func() time.Time { return now }}
		principal, err := a.Authenticate(t.Context(), c.token)
		switch {
		case c.want != nil:
			if !errors.Is(err, c.want) || principal != nil {
				t.Errorf("%s: %v, %v", name, principal, err)
			}
		case err != nil || principal.Tenant != c.tenant:
			t.Errorf("%s: %v, %v", name, principal, err)
		}
	}
}

// TestLastUseIsRememberedNowAndThen: not with each request.
func TestLastUseIsRememberedNowAndThen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	text, id, hash := auth.NewKey()
	k := &keys{key: auth.Key{ID: id, Hash: hash}}
	a := &auth.Authenticator{Keys: k, Now: func() time.Time { return now }}
	for range 100 {
		if _, err := a.Authenticate(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	if k.used != 2 {
		t.Errorf("%d writes in 100 seconds", k.used)
	}
}

func TestOperatorMayEverything(t *testing.T) {
	t.Parallel()
	for _, scope := range auth.Scopes() {
		if !auth.Operator().May(scope) {
			t.Errorf("not %s", scope)
		}
	}
	if auth.Of(auth.Key{Scopes: auth.DefaultScopes()}).May(auth.ScopeAdmin) {
		t.Error("a plain key may administer")
	}
}

// TestKeysOfOtherCharacters: a text that is formed like a key, with a right checksum, and has bytes that no key has. A database
// that takes only UTF-8 answered it with an error, to anybody, and wrote a line into the log for each.
func TestKeysOfOtherCharacters(t *testing.T) {
	t.Parallel()
	text, _, _ := auth.NewKey()
	for _, strange := range []string{"\xff", "\xc3", "A", "%", "'", " ", "u"} {
		for _, at := range []int{len(auth.Prefix), len(auth.Prefix) + 20} {
			forged := auth.WithChecksum(text[:at] + strange + text[at+1:])
			if id, _, err := auth.ParseKey(forged); !errors.Is(err, auth.ErrMalformed) {
				t.Errorf("%q at %d: id %q, %v", strange, at, id, err)
			}
		}
	}
	if _, _, err := auth.ParseKey(auth.WithChecksum(text)); err != nil {
		t.Errorf("the key itself: %v", err)
	}
}
