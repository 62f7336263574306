// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"glovebox/internal/daemon/daemontest"
)

const unitFile = "../deploy/systemd/glovebox.service"

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestUnitIsValid: systemd understands every directive of the unit.
func TestUnitIsValid(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("skipped: no systemd-analyze here: apt-get install systemd")
	}
	// It asks that the programs are there.
	unit := strings.ReplaceAll(readFile(t, unitFile), "/usr/local/bin/glovebox", "/bin/true")
	verify := func(text string) (string, error) {
		file := filepath.Join(t.TempDir(), "glovebox.service")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		said, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput()
		// What it says about other units of this machine is none of ours.
		var ours []string
		for line := range strings.Lines(string(said)) {
			if strings.Contains(line, "glovebox") {
				ours = append(ours, line)
			}
		}
		return strings.Join(ours, ""), err
	}
	if said, err := verify(unit); err != nil || said != "" {
		t.Errorf("%v: %s", err, said)
	}
	if said, _ := verify(unit + "\n[Service]\nDelegated=yes\n"); !strings.Contains(said, "Delegated") {
		t.Errorf("a directive that is none was not noticed: %q", said)
	}
}

// capabilities returns those that the unit keeps.
func capabilities(t *testing.T) []string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.+)$`).FindStringSubmatch(readFile(t, unitFile))
	if match == nil {
		t.Fatal("the unit bounds no capabilities")
	}
	return strings.Fields(strings.ReplaceAll(match[1], "CAP_", ""))
}

// TestContainerHasTheSamePrivileges: the compose file adds the capabilities of the unit, and is not privileged.
func TestContainerHasTheSamePrivileges(t *testing.T) {
	t.Parallel()
	var added []string
	compose := readFile(t, "../deploy/docker/compose.yaml")
	for _, match := range regexp.MustCompile(`(?m)^ +- ([A-Z_]+)(?: |$)`).FindAllStringSubmatch(compose, -1) {
		added = append(added, match[1])
	}
	if want := capabilities(t); !slices.Equal(added, want) {
		t.Errorf("the compose file adds %v, the unit keeps %v", added, want)
	}
	if regexp.MustCompile(`(?m)^\s+privileged:`).MatchString(compose) {
		t.Error("the compose file says privileged")
	}
}

// TestCapabilitiesSuffice: with those of the unit alone, and no_new_privs, every limit is enforced.
func TestCapabilitiesSuffice(t *testing.T) {
	t.Parallel()
	data, missing := daemontest.Data()
	setpriv, err := exec.LookPath("setpriv")
	switch {
	case missing != "":
		t.Skipf("skipped: no real sandboxes here: %s", missing)
	case os.Geteuid() != 0:
		t.Skip("skipped: not root: only root has capabilities to give up")
	case err != nil:
		t.Skip("skipped: no setpriv here: apt-get install util-linux")
	}
	bounded := "-all"
	for _, name := range capabilities(t) {
		bounded += ",+" + strings.ToLower(name)
	}
	program, err := exec.LookPath("glovebox") // testscript's: this binary
	if err != nil {
		t.Fatal(err)
	}
	doctor := func(set string) (string, error) {
		command := exec.CommandContext(t.Context(), setpriv, "--no-new-privs", "--bounding-set="+set, "--inh-caps=-all", program, "doctor")
		command.Env = []string{"GLOVEBOX_DATA=" + data, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		said, err := command.CombinedOutput()
		return string(said), err
	}
	if said, err := doctor(bounded); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	if said, err := doctor(strings.ReplaceAll(bounded, ",+sys_admin", "")); err == nil && !strings.Contains(said, "not supported") {
		t.Errorf("without SYS_ADMIN nothing is missing: the set was not applied: %s", said)
	}
}
