// SPDX-License-Identifier: Apache-2.0

// The parsers of the host's configuration have no exported door but a real build,
// so these tests are inside the package.

package image

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestMissingToolsAreNamedWithTheirPackage(t *testing.T) {
	t.Parallel()
	for program, pkg := range map[string]string{"mmdebstrap": "mmdebstrap", "python3": "python3", "mount": "mount", "chroot": "coreutils"} {
		look := func(name string) (string, error) {
			if name == program {
				return "", exec.ErrNotFound
			}
			return "/bin/" + name, nil
		}
		err := missingTool(&loaded{lock: []byte{}}, look)
		if KindOf(err) != KindTool || !strings.Contains(err.Error(), program+" is not installed: run `apt-get install "+pkg+"`") {
			t.Errorf("%s: %v", program, err)
		}
	}
	noPython := func(name string) (string, error) {
		if name == "python3" {
			return "", exec.ErrNotFound
		}
		return name, nil
	}
	if err := missingTool(&loaded{}, noPython); err != nil {
		t.Errorf("an image without wheels asks for python3: %v", err)
	}
}

func TestReadyNeedsRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 || runtime.GOOS != "linux" {
		t.Skip("this user is root, or this is not Linux")
	}
	err := hostSteps{}.Ready(t.Context(), &loaded{})
	if kind := KindOf(err); kind != KindPrivilege && kind != KindTool {
		t.Errorf("%v", err)
	}
}

func TestHostSources(t *testing.T) {
	t.Parallel()
	const release = "ID=debian\nVERSION_CODENAME=bookworm\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"deb822": {map[string]string{
			"os-release": release,
			"apt/sources.list.d/debian.sources": "Types: deb deb-src\n# a comment\nURIs: http://m.test/debian\nSuites: bookworm bookworm-updates bookworm-backports\n" +
				"Components: main contrib\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n" +
				"Types: deb\nURIs: http://m.test/security\nSuites: bookworm-security\nComponents: main\n",
		}, []string{"deb http://m.test/debian trixie main", "deb http://m.test/debian trixie-updates main", "deb http://m.test/security trixie-security main"}},
		"one line": {map[string]string{
			"os-release":       release,
			"apt/sources.list": "# deb http://old.test bookworm main\ndeb [arch=amd64] http://m.test bookworm main # why\ndeb-src http://m.test bookworm main\n",
		}, []string{"deb http://m.test trixie main"}},
		"other vendors are left out": {map[string]string{
			"os-release":                     release,
			"apt/sources.list":               "deb http://m.test bookworm main\n",
			"apt/sources.list.d/a.list":      "deb [signed-by=/etc/apt/keyrings/vendor.asc] http://vendor.test bookworm main\n",
			"apt/sources.list.d/b.sources":   "Types: deb\nURIs: http://v2.test\nSuites: bookworm\nComponents: main\nSigned-By: /etc/apt/keyrings/v2.gpg\n",
			"apt/sources.list.d/c.list":      "deb http://v3.test bookworm stable\ndeb http://v4.test nodistro main\n",
			"apt/sources.list.d/d.list.save": "deb http://v5.test bookworm main\n",
			"apt/sources.list.d/e.sources":   "Types: deb\nURIs: http://v6.test\nSuites: bookworm\nComponents: main\nEnabled: no\n",
		}, []string{"deb http://m.test trixie main"}},
		"security alone is of no use": {map[string]string{
			"os-release": release, "apt/sources.list": "deb http://m.test bookworm-security main\n",
		}, nil},
		"another distribution": {map[string]string{
			"os-release": "ID=ubuntu\nVERSION_CODENAME=noble\n", "apt/sources.list": "deb http://m.test noble main\n",
		}, nil},
		"nothing": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etc := fstest.MapFS{}
			for path, content := range test.files {
				etc[path] = &fstest.MapFile{Data: []byte(content)}
			}
			if got := hostSources(etc, "trixie"); !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestAptOptionsTakeTheWayButNoWeakerChecks(t *testing.T) {
	t.Parallel()
	const dump = `APT::Architecture "amd64";
Acquire::http "";
Acquire::http::Proxy "http://proxy.test:3128";
Acquire::https::CaInfo "/etc/ssl/own.pem";
Acquire::Retries "3";
Acquire::AllowInsecureRepositories "1";
APT::Get::AllowUnauthenticated "1";
`
	want := []string{`Acquire::http::Proxy "http://proxy.test:3128"`, `Acquire::https::CaInfo "/etc/ssl/own.pem"`, `Acquire::Retries "3"`}
	if got := aptOptions(dump); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestToolOutputBecomesAnErrorThatHelps(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]struct {
		kind Kind
		text string
	}{
		"cannot copy: No space left on device":       {KindDisk, "free some space"},
		"Temporary failure resolving 'm.test'":       {KindNetwork, "check the network"},
		"Failed to establish a new connection: [..]": {KindNetwork, "check the network"},
		"unshare: Operation not permitted":           {KindPrivilege, "root"},
		"NO_PUBKEY 6ED0E7B82643E131":                 {KindTool, "debian-archive-keyring"},
		"THESE PACKAGES DO NOT MATCH THE HASHES":     {KindFailed, "renew the lock file"},
		"E: something else":                          {KindFailed, "something else"},
	} {
		err := classifyOutput("tool", output, errors.New("exit status 1"))
		if KindOf(err) != want.kind || !strings.Contains(err.Error(), want.text) || !strings.Contains(err.Error(), output) {
			t.Errorf("%q gives kind %d: %v", output, KindOf(err), err)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	got := redact("Err:1 https://me:secret@m.test/debian trixie, see http://m.test/a@b")
	if strings.Contains(got, "secret") || !strings.Contains(got, "https://***@m.test/debian") || !strings.Contains(got, "http://m.test/a@b") {
		t.Error(got)
	}
}

func TestBuffersHaveLimits(t *testing.T) {
	t.Parallel()
	tail := &tailBuffer{limit: 8}
	for _, text := range []string{"one\n", "two\n", "three\n"} {
		if _, err := tail.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got := tail.String(); got != "…\nthree" {
		t.Errorf("tail %q", got)
	}
	limited := &limitedBuffer{limit: 4}
	if _, err := limited.Write([]byte("1234")); err != nil {
		t.Error(err)
	}
	if _, err := limited.Write([]byte("5")); err == nil {
		t.Error("a byte past the limit was taken")
	}
}

func TestMendShebang(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"#!/opt/my/bin/python3.11\nimport x\n":                                 "#!/usr/bin/python3\nimport x\n",
		"#!/bin/sh\n'''exec' \"/a b/python\" \"$0\" \"$@\"\n' '''\nimport x\n": "#!/usr/bin/python3\nimport x\n",
		"#!/bin/sh\necho python\n":                                             "#!/bin/sh\necho python\n",
		"\x7fELF":                                                              "\x7fELF",
		"":                                                                     "",
	} {
		if got := string(mendShebang([]byte(content))); got != want {
			t.Errorf("%q became %q, want %q", content, got, want)
		}
	}
}

func TestArrangePackages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"bin/tool": "#!/x/python\n", "bin/pip3.11": "#!/x/python\n", "share/man/man1/tool.1": "x", "share/data/d": "x",
		"pkg/__init__.py": "", "pkg/tests/test_x.py": "", "pkg/sub/tests/data.csv": "", "pkg/testing/keep.py": "",
	} {
		path := filepath.Join(dir, distPackages, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := arrangePackages(dir, []string{"tests"}); err != nil {
		t.Fatal(err)
	}
	var files []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, name)
		}
		return err
	})
	want := []string{distPackages + "/pkg/__init__.py", distPackages + "/pkg/testing/keep.py", "usr/local/bin/tool", "usr/share/data/d"}
	if err != nil || !slices.Equal(files, want) {
		t.Errorf("files %q (%v)\nwant  %q", files, err, want)
	}
}

func TestSystemFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "victim")
	for path, content := range map[string]string{outside: "untouched", filepath.Join(dir, "shadow-source"): "root:secret"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := errors.Join(root.Mkdir("etc", 0o755), root.Symlink(outside, "etc/resolv.conf"), root.Rename("shadow-source", "etc/shadow")); err != nil {
		t.Fatal(err)
	}
	if err := writeSystemFiles(root); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(outside); string(data) != "untouched" {
		t.Error("a link in the image led a write outside")
	}
	if info, err := root.Lstat("etc/resolv.conf"); err != nil || !info.Mode().IsRegular() || info.Size() != 0 {
		t.Errorf("resolv.conf: %v, %v", info, err)
	}
	if _, err := root.Lstat("etc/shadow"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("etc/shadow: %v", err)
	}
	for name, mode := range map[string]fs.FileMode{"data": 0o755, "home/user": 0o755, "tmp": 0o777 | fs.ModeSticky, "etc/passwd": 0o644} {
		if info, err := root.Stat(name); err != nil || info.Mode()&^fs.ModeDir != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestSafeMode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rel        string
		mode, want fs.FileMode
	}{
		{"usr/bin/su", 0o755 | fs.ModeSetuid, 0o755},
		{"usr/bin/wall", 0o711 | fs.ModeSetgid, 0o755},
		{"etc/secret", 0o600, 0o644},
		{"var/data", 0o666, 0o644},
		{"root", fs.ModeDir | 0o700, 0o755},
		{"var/mail", fs.ModeDir | fs.ModeSetgid | 0o775, 0o755},
		{"tmp", fs.ModeDir | 0o755, fs.ModeSticky | 0o777},
		{"var/local/tmp", fs.ModeDir | fs.ModeSticky | 0o777, 0o755},
	} {
		if got := safeMode(test.rel, test.mode); got != test.want {
			t.Errorf("%s %v: %v, want %v", test.rel, test.mode, got, test.want)
		}
	}
}

func TestKeepFonts(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := keepFonts(root, []string{"A*"}); err != nil {
		t.Errorf("no fonts at all: %v", err)
	}
	for _, name := range []string{"truetype/A-Bold.ttf", "truetype/B.ttf"} {
		if err := writeFile(root, fontsDir+"/"+name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := keepFonts(root, []string{"A*"}); err != nil {
		t.Fatal(err)
	}
	if names, _ := fs.Glob(root.FS(), fontsDir+"/*/*"); !slices.Equal(names, []string{fontsDir + "/truetype/A-Bold.ttf"}) {
		t.Errorf("kept %q", names)
	}
}

func TestPackageLists(t *testing.T) {
	t.Parallel()
	status := parseStatus("Package: nodejs\nStatus: install ok installed\nVersion: 1:20.1+dfsg-1\nDescription: x\n y: z\n\n" +
		"Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n")
	if want := []Package{{"nodejs", "1:20.1+dfsg-1"}}; !slices.Equal(status, want) {
		t.Errorf("status %v", status)
	}
	if got := upstream("1:20.1+dfsg-1"); got != "20.1" {
		t.Errorf("upstream %q", got)
	}
	lock := parseLock([]byte("# c\nb==2 \\\n    --hash=sha256:00\na-x==1.0.post1\n"))
	if want := []Package{{"a-x", "1.0.post1"}, {"b", "2"}}; !slices.Equal(lock, want) {
		t.Errorf("lock %v", lock)
	}
}

func TestWheelPlatforms(t *testing.T) {
	t.Parallel()
	suite, _ := suiteNamed("trixie")
	arch, _ := architectureOf("arm64")
	tags := wheelPlatforms(suite, arch)
	for tag, want := range map[string]bool{
		"manylinux_2_41_aarch64": true, "manylinux2014_aarch64": true, "manylinux_2_42_aarch64": false, "manylinux_2_28_x86_64": false,
	} {
		if slices.Contains(tags, tag) != want {
			t.Errorf("%s: %v", tag, !want)
		}
	}
}
