// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glovebox/internal/config"
)

func env(vars ...string) config.Environment {
	return config.Environment{Vars: append(vars, "HOME=/home/someone"), Processors: 2}
}

func ptr[T any](v T) *T { return &v }

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := config.Load(env(), config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Data != "/home/someone/.local/share/glovebox" || c.Addr != "127.0.0.1:8722" || c.Image != "python" {
		t.Errorf("got %+v", c)
	}
	if c, err := config.Load(config.Environment{Root: true}, config.Flags{}); err != nil || c.Data != "/var/lib/glovebox" {
		t.Errorf("root: %s, %v", c.Data, err)
	}
	if c, err := config.Load(env("XDG_DATA_HOME=/x"), config.Flags{}); err != nil || c.Data != "/x/glovebox" {
		t.Errorf("XDG: %s, %v", c.Data, err)
	}
}

// TestPrecedence: defaults, file, environment, flags.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := "addr: 127.0.0.1:1\ndata: /from/file\nimage: from-file\nmaxima:\n  memory: 2GiB\n  wall: 1m\n  disk: 1073741824\nretention: {count: 5, artifacts: 2h}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(env("GLOVEBOX_CONFIG="+file, "GLOVEBOX_ADDR=127.0.0.1:2", "GLOVEBOX_DATA=/from/env", "GLOVEBOX_HOSTS=a,b",
		"GLOVEBOX_SERVICE_HOST=10.0.0.1"), config.Flags{Addr: ptr("127.0.0.1:3")})
	if err != nil {
		t.Fatal(err)
	}
	if c.Addr != "127.0.0.1:3" || c.Data != "/from/env" || c.Image != "from-file" || c.Maxima.Memory != 2<<30 ||
		time.Duration(c.Maxima.Wall) != time.Minute || c.Maxima.Disk != 1<<30 || c.Retention.Count != 5 || len(c.Hosts) != 2 ||
		c.Maxima.Processes != 1024 {
		t.Errorf("got %+v", c)
	}
}

// TestEmptyFile: a file that says nothing changes nothing.
func TestEmptyFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "---\n", "null\n"} {
		c := config.Default(2)
		if err := c.Parse("empty", []byte(text)); err != nil || c.Image != "python" || c.Maxima.Memory == 0 {
			t.Errorf("%q: %v, %+v", text, err, c)
		}
	}
}

func TestEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("max_runners: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(env("GLOVEBOX_MAX_QUEUED=many", "GLOVEBOX_IMAGES=x", "GLOVEBOX_LOG_LEVEL=loud", "GLOVEBOX_POLICY=lax"),
		config.Flags{File: file, Addr: ptr("0.0.0.0:80")})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"max_runners", "GLOVEBOX_MAX_QUEUED", "GLOVEBOX_IMAGES", "loud", "lax", "--allow-remote"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in %v", want, err)
		}
	}
	if _, err := config.Load(env(), config.Flags{File: "/does/not/exist"}); err == nil {
		t.Error("a named file that is missing was ignored")
	}
}

// TestNothingIsKeptForEver: zero is refused for each kind, by name, and so is a bucket of another kind.
func TestNothingIsKeptForEver(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := "retention: {count: 0, artifacts: 0s, code: 0s, events: 0s, answers: 0s, sweep: 0s}\nblobs: gs://bucket\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(env(), config.Flags{File: file})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"count", "artifacts", "code", "events", "answers", "sweep", "s3://BUCKET"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in %v", want, err)
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	c, err := config.Load(env("GLOVEBOX_TOKEN=a-very-long-secret-token"), config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(text, "very-long") {
		t.Errorf("the token shows in %s", text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("addr: x\nmaxima: {memory: 1GiB}")
	f.Fuzz(func(_ *testing.T, text string) {
		c := config.Default(1)
		if c.Parse("fuzz", []byte(text)) == nil {
			_ = c.Validate()
		}
	})
}

// write makes a configuration file.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
