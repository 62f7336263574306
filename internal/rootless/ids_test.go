// SPDX-License-Identifier: Apache-2.0

package rootless

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestGranted: the largest range of the user, by name or by number, and never one that is too small.
func TestGranted(t *testing.T) {
	t.Parallel()
	me := strconv.Itoa(os.Getuid())
	cases := map[string]struct {
		file string
		want idRange
	}{
		"by name":        {"other:1:70000\nme:100000:65536\n", idRange{100000, 65536}},
		"by number":      {me + ":200000:4096\n", idRange{200000, 4096}},
		"the largest":    {"me:1000:4096\nme:300000:65536\nme:2000:5000\n", idRange{300000, 65536}},
		"too small":      {"me:100000:4095\n", idRange{}},
		"nobody":         {"", idRange{}},
		"damaged":        {"me:x:y\nme:1\n::\nme:100000:-5\n", idRange{}},
		"of a namesake":  {"mee:100000:65536\n", idRange{}},
		"overlong lines": {"me:" + strings.Repeat("1", 1<<17) + ":65536\n", idRange{}},
	}
	for name, c := range cases {
		path := filepath.Join(t.TempDir(), "subuid")
		if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := granted(path, "me")
		if got != c.want || (err == nil) != (c.want.count > 0) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
