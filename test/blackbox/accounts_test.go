// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"fmt"
	"strings"
	"testing"
)

// synthetic is what a sandbox shows as the users of its system.
const synthetic = "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"

// readings read a file in ways that programs have, and print what they got or the name of the error.
func readings() map[string]string {
	return map[string]string{
		"open":         "try: print(open(%[1]q).read(),end='')\nexcept OSError as e: print(type(e).__name__)",
		"a link":       "import os\nos.symlink(%[1]q,'link')\ntry: print(open('link').read(),end='')\nexcept OSError as e: print(type(e).__name__)",
		"openat":       "import os\nd=os.open('/etc',os.O_RDONLY)\ntry: print(os.read(os.open(os.path.basename(%[1]q),os.O_RDONLY,dir_fd=d),9999).decode(),end='')\nexcept OSError as e: print(type(e).__name__)",
		"the own root": "try: print(open('/proc/self/root'+%[1]q).read(),end='')\nexcept OSError as e: print(type(e).__name__)",
		"a table":      "import pandas as pd\ntry: print(pd.read_csv(%[1]q,header=None,sep=':').to_csv(sep=':',header=False,index=False),end='')\nexcept OSError as e: print(type(e).__name__)",
		"cat":          "import subprocess\nr=subprocess.run(['cat',%[1]q],capture_output=True,text=True)\nprint(r.stdout or {True:'PermissionError',False:'FileNotFoundError'}['denied' in r.stderr],end='')",
		"a magic":      "r=!cat %[2]s\nprint('PermissionError' if 'denied' in r[0] else 'FileNotFoundError' if 'No such' in r[0] else '\\n'.join(r)+'\\n',end='')",
		"another Python": "import subprocess,sys\nr=subprocess.run([sys.executable,'-c','print(open(%[2]s'.replace('(%[2]s','(\"%[2]s\"')+').read(),end=\"\")'],capture_output=True,text=True)\n" +
			"print(r.stdout or r.stderr.strip().splitlines()[-1].split(':')[0],end='')",
		"a fork": "import os\nr,w=os.pipe()\nif os.fork()==0:\n try: os.write(w,open(%[1]q,'rb').read())\n except OSError as e: os.write(w,type(e).__name__.encode())\n os._exit(0)\nos.close(w)\nprint(os.read(r,9999).decode(),end='')\nos.wait()",
	}
}

// TestAccountsOfEachPolicy: /etc/passwd is synthetic in standard and refused in strict, /etc/shadow exists in neither, by
// every way and in every process; and the record says that it was tried.
func TestAccountsOfEachPolicy(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for _, c := range []struct{ policy, file, want, code string }{
		{"standard", "/etc/passwd", synthetic, "access.synthetic"},
		{"tight", "/etc/passwd", synthetic, "access.synthetic"},
		{"strict", "/etc/passwd", "PermissionError", "access.refused"},
		{"strict", "/etc/group", "PermissionError", "access.refused"},
		{"standard", "/etc/shadow", "FileNotFoundError", "access.absent"},
		{"strict", "/etc/shadow", "FileNotFoundError", "access.absent"},
		{"strict", "/etc/gshadow", "FileNotFoundError", "access.absent"},
		{"strict", "/etc/passwd-", "FileNotFoundError", "access.absent"},
	} {
		for _, fresh := range []bool{false, true} {
			for name, code := range readings() {
				t.Run(fmt.Sprintf("%s%s/fresh %v/%s", c.policy, c.file, fresh, name), func(t *testing.T) {
					t.Parallel()
					x := s.run(t, fmt.Sprintf(code, c.file, c.file), call{"policy": c.policy, "fresh": fresh, "limits": call{"wall": 60}}).ok(t)
					if strings.TrimSpace(x.Stdout) != strings.TrimSpace(c.want) {
						t.Errorf("got %q, want %q", x.Stdout, c.want)
					}
					// What a fork tries, and a path beneath the descriptor of a folder, Python does not tell.
					seen := name != "a fork" && name != "openat"
					if text := x.warned(c.code); seen && !strings.Contains(text, c.file) {
						t.Errorf("no warning %s: %+v", c.code, x.Warnings)
					}
				})
			}
		}
	}
}

// TestWarmSandboxesKeepTheirPolicy: what stands ready for one policy is never handed out for another.
func TestWarmSandboxesKeepTheirPolicy(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	const most = 60
	ready := map[string]int{}
	for i := 0; i < most && (ready["strict"] < 3 || ready["standard"] < 3); i++ {
		for policy, want := range map[string]string{"standard": synthetic, "strict": "PermissionError\n"} {
			x := s.run(t, fmt.Sprintf(readings()["open"], "/etc/passwd"), call{"policy": policy}, within(30)).ok(t)
			if x.Stdout != want {
				t.Fatalf("%s (stood ready: %v): %q", policy, x.Usage.PoolHit, x.Stdout)
			}
			if x.Usage.PoolHit {
				ready[policy]++
			}
		}
	}
	if ready["strict"] == 0 || ready["standard"] == 0 {
		t.Errorf("of %d runs each, these stood ready: %v", most, ready)
	}
}

// TestOrdinaryWorkInStrict: without the accounts, what people do still works, and nobody is warned.
func TestOrdinaryWorkInStrict(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"home":     "import os,getpass,pathlib\nassert os.path.expanduser('~')=='/home/user'==str(pathlib.Path.home()) and getpass.getuser()=='user'",
		"a chart":  "import matplotlib.pyplot as plt\nplt.plot([1,2])\nplt.savefig('a.png')",
		"a table":  "pd.DataFrame({'a':[1]}).to_excel('a.xlsx')\npd.read_excel('a.xlsx')",
		"a magic":  "!id; ls -l / > /dev/null",
		"programs": "import subprocess\nsubprocess.run('ls -la; git --version; tar cf /tmp/a.tar .',shell=True)",
		"archives": "import shutil\nopen('x','w').write('x')\nshutil.make_archive('/tmp/b','gztar','.')",
		"bars":     "import tqdm\nfor _ in tqdm.tqdm(range(3)): pass",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, code, call{"policy": "strict", "limits": call{"wall": 60, "memory": "512MiB", "cpus": 1}}).ok(t)
			if strings.Contains(x.raw, `"access.`) {
				t.Errorf("a false alarm: %+v", x.Warnings)
			}
		})
	}
}
