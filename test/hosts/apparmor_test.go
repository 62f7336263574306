// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const profile = "../../deploy/apparmor/glovebox"

// TestAppArmorProfile has the parser read the profile that is shipped. Parsers before version 4 know neither its abi nor
// the rule userns: they read the rest.
func TestAppArmorProfile(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for _, line := range []string{"\n  userns,\n", "flags=(unconfined)", "/usr/{local/,}bin/glovebox"} {
		if !strings.Contains(text, line) {
			t.Errorf("the profile has no %q", line)
		}
	}
	parser, err := exec.LookPath("apparmor_parser")
	if err != nil {
		t.Skip("the profile is not parsed: there is no apparmor_parser (Debian: apt install apparmor)")
	}
	if _, err := os.Stat("/etc/apparmor.d/abi/4.0"); err != nil {
		t.Log("this parser is older than version 4: abi, userns and the flag unconfined are left out")
		text = strings.NewReplacer("abi <abi/4.0>,\n", "", "\n  userns,\n", "\n", " flags=(unconfined)", "").Replace(text)
	}
	path := filepath.Join(t.TempDir(), "glovebox")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), parser, "-Q", "-K", path).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
