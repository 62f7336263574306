// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"glovebox/internal/backend/native"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

// counter makes ids that no two tests share.
var counter atomic.Int64

func newID() sandbox.ID {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	id := []byte("t")
	for n := counter.Add(1); n > 0; n /= int64(len(digits)) {
		id = append(id, digits[n%int64(len(digits))])
	}
	return sandbox.ID(id)
}

// ran is what came out of a cell.
type ran struct {
	sandbox.Result
	stdout, stderr strings.Builder
	fault          *sandbox.Fault
	notices        []string
}

func (r *ran) take(e sandbox.Event) {
	switch e.Kind {
	case sandbox.EventStdout:
		r.stdout.Write(e.Text)
	case sandbox.EventStderr:
		r.stderr.Write(e.Text)
	case sandbox.EventError:
		r.fault = e.Fault
	case sandbox.EventNotice:
		r.notices = append(r.notices, e.Notice.Code)
	case sandbox.EventDisplay, sandbox.EventResult, sandbox.EventValue:
	}
}

// lease makes a leased box.
func lease(t *testing.T, b *native.Backend, class sandbox.Class, limits sandbox.Limits) sandbox.Sandbox {
	t.Helper()
	box, err := b.Create(t.Context(), newID(), class)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Destroy(t.Context()); err != nil {
			t.Errorf("destroy: %v", err)
		}
	})
	if err := box.Lease(t.Context(), sandbox.Lease{Limits: limits}); err != nil {
		t.Fatal(err)
	}
	return box
}

// script runs a script as the last cell of a new session.
func script(t *testing.T, box sandbox.Sandbox, limits sandbox.Limits, source string) *ran {
	t.Helper()
	session, err := box.Open(t.Context(), sandbox.OpenSpec{Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	r := &ran{}
	code := sandbox.Code{Source: source, Name: "main.py", Wall: limits.Wall, Last: true}
	if r.Result, err = session.Exec(t.Context(), code, r.take); err != nil {
		t.Fatal(err)
	}
	return r
}

func limits(change func(*sandbox.Limits)) sandbox.Limits {
	l := sandboxtest.DefaultLimits()
	change(&l)
	return l
}

// TestImportMatrix: what analysts use works under the final filter, mounts and Landlock rules, and does its first piece
// of work there.
func TestImportMatrix(t *testing.T) {
	cases := map[string]string{
		"numpy":           "import numpy as np; assert np.linalg.eigvals(np.eye(50)).sum() == 50",
		"pandas":          "import pandas as pd; assert pd.DataFrame({'a':[1,1,2],'b':[1,2,3]}).groupby('a').b.sum().tolist() == [3, 3]",
		"scipy":           "import scipy.optimize as o; assert abs(o.brentq(lambda x: x*x-2, 0, 2)-2**.5) < 1e-6",
		"sklearn":         "from sklearn.cluster import KMeans; import numpy as np; assert len(KMeans(2, n_init=1).fit(np.random.rand(50,2)).labels_) == 50",
		"statsmodels":     "import statsmodels.api as sm, numpy as np; x=np.arange(20.); assert abs(sm.OLS(2*x, x).fit().params[0]-2) < 1e-6",
		"matplotlib":      "import matplotlib.pyplot as plt; plt.plot([1,2]); plt.savefig('a.png'); import os; assert os.path.getsize('a.png') > 1000",
		"seaborn":         "import seaborn as sns, pandas as pd; sns.barplot(pd.DataFrame({'a':['x','y'],'b':[1,2]}), x='a', y='b')",
		"pyarrow":         "import pyarrow as pa, pyarrow.parquet as pq; pq.write_table(pa.table({'a':[1,2]}), 't.parquet'); assert pq.read_table('t.parquet').num_rows == 2",
		"polars":          "import polars as pl; assert pl.DataFrame({'a':[1,2]}).select(pl.col('a').sum()).item() == 3",
		"duckdb":          "import duckdb; assert duckdb.sql('select sum(i) from range(10) t(i)').fetchall()[0][0] == 45",
		"openpyxl":        "import pandas as pd; pd.DataFrame({'a':[1]}).to_excel('x.xlsx'); assert pd.read_excel('x.xlsx').a[0] == 1",
		"calamine":        "import pandas as pd; pd.DataFrame({'a':[1]}).to_excel('x.xlsx'); assert pd.read_excel('x.xlsx', engine='calamine').a[0] == 1",
		"multiprocessing": "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: assert p.map(abs, [-1,-2]) == [1,2]",
		"spawn":           "import concurrent.futures as c, multiprocessing as m\nif __name__ == '__main__':\n    with c.ProcessPoolExecutor(2, mp_context=m.get_context('fork')) as p: assert list(p.map(abs, [-1])) == [1]",
		"joblib":          "from joblib import Parallel, delayed\nassert Parallel(n_jobs=2)(delayed(abs)(i) for i in [-1,-2]) == [1,2]",
		"threads":         "import concurrent.futures as c\nwith c.ThreadPoolExecutor(8) as p: assert sum(p.map(abs, range(-9, 0))) == 45",
		"sqlite3":         "import sqlite3; c=sqlite3.connect('d.db'); c.execute('create table t(a)'); c.execute('insert into t values (1)'); c.commit()",
		"ssl":             "import ssl; ssl.create_default_context()",
		"asyncio":         "import asyncio\nasync def m():\n    p = await asyncio.create_subprocess_exec('echo', 'x', stdout=-1)\n    return (await p.communicate())[0]\nassert asyncio.run(m()) == b'x\\n'",
		"sockets":         "import socket, threading\ns=socket.create_server(('127.0.0.1',0))\nthreading.Thread(target=lambda: s.accept()[0].sendall(b'x')).start()\nassert socket.create_connection(s.getsockname()).recv(1) == b'x'",
		"ipython shell":   "!echo from-the-shell",
		"pty":             "import pty, os\npid, fd = pty.fork()\nif pid == 0: os.execvp('echo', ['echo', 'tty'])\nassert b'tty' in os.read(fd, 100)",
		"tempfile":        "import tempfile\nwith tempfile.NamedTemporaryFile() as f: f.write(b'x')\nwith tempfile.TemporaryDirectory() as d: pass",
		"mmap":            "import mmap; m = mmap.mmap(-1, 4096); m[0] = 1",
		"shared memory":   "from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=100); m.close(); m.unlink()",
		"zoneinfo":        "import datetime, zoneinfo\nassert datetime.datetime(2026,7,1,tzinfo=zoneinfo.ZoneInfo('Europe/Paris')).utcoffset().seconds == 7200",
		"random":          "import secrets, uuid, random; secrets.token_hex(); uuid.uuid4(); random.random()",
		"processor count": "import os; assert os.cpu_count() == os.process_cpu_count() == 1",
		"plotly":          "import plotly.express as px; px.bar(x=[1], y=[2])",
		"altair":          "import altair as a, pandas as pd; a.Chart(pd.DataFrame({'a':[1]})).mark_bar().encode(x='a').to_dict()",
		"sympy":           "import sympy as s; x=s.Symbol('x'); assert s.integrate(x, x) == x**2/2",
		"pillow":          "from PIL import Image; Image.new('RGB', (4,4)).save('i.png')",
		"node":            "import subprocess; assert subprocess.run(['node','-e','console.log(1+1)'], capture_output=True).stdout == b'2\\n'",
		"bash":            "import subprocess; assert subprocess.run('echo $((1+1)) | cat', shell=True, capture_output=True).stdout == b'2\\n'",
	}
	b := newBackend(t)
	l := limits(func(l *sandbox.Limits) { l.Memory = 1 << 30 })
	for name, source := range cases {
		t.Run(name, func(t *testing.T) {
			r := script(t, lease(t, b, class(), l), l, source+"\nprint('worked')")
			if r.End != sandbox.EndOK || !strings.HasSuffix(r.stdout.String(), "worked\n") {
				t.Errorf("end %s, stdout %q, stderr %q, fault %+v", r.End, r.stdout.String(), r.stderr.String(), r.fault)
			}
		})
	}
}

// TestTightPreset: the mission's own limits bind: the kill at 256 MiB, half a processor, the 51st process refused,
// nothing executed from /tmp.
func TestTightPreset(t *testing.T) {
	b := newBackend(t)
	tight := sandbox.Class{Image: "python", Profile: sandbox.ProfileTight, Network: sandbox.NetworkNone}
	l := limits(func(l *sandbox.Limits) {
		l.Wall, l.CPUTime, l.Memory, l.MilliCPU, l.Processes, l.OpenFiles, l.Tmp = sandboxtest.Patient(10*time.Second), sandboxtest.Patient(10*time.Second), 256<<20, 500, 50, 100, 64<<20
	})
	t.Run("memory", func(t *testing.T) {
		r := script(t, lease(t, b, tight, l), l, "b=[]\nwhile True: b.append(bytearray(8<<20))")
		if r.End != sandbox.EndOutOfMemory {
			t.Fatalf("end %s", r.End)
		}
		if len(r.Hits) != 1 || r.Hits[0].Limit != sandbox.LimitMemory || r.Hits[0].Value != l.Memory || r.Hits[0].Measured < l.Memory*9/10 {
			t.Errorf("hits %+v", r.Hits)
		}
	})
	t.Run("processor", func(t *testing.T) {
		r := script(t, lease(t, b, tight, l), l, "import time\nend=time.time()+2\nwhile time.time()<end: pass")
		share := r.Usage.CPU.Seconds() / r.Usage.Wall.Seconds()
		if r.End != sandbox.EndOK || share > 0.6 {
			t.Errorf("end %s, used %.2f of a processor", r.End, share)
		}
	})
	t.Run("processes", func(t *testing.T) {
		r := script(t, lease(t, b, tight, l), l, `
import os, time
n = 1
try:
    while True:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        n += 1
except OSError: print(n)
raise SystemExit(1)`)
		if got := r.stdout.String(); got != "50\n" || r.End != sandbox.EndProcesses {
			t.Errorf("end %s after %q processes", r.End, got)
		}
	})
	t.Run("files", func(t *testing.T) {
		r := script(t, lease(t, b, tight, l), l, "f=[]\ntry:\n    while True: f.append(open('/dev/null'))\nexcept OSError as e: print(e.errno, len(f) < 100)")
		if got := r.stdout.String(); got != "24 True\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("tmp", func(t *testing.T) {
		r := script(t, lease(t, b, tight, l), l, `
import os, subprocess
for d in '/tmp', '/dev/shm':
    p = d + '/x.sh'
    open(p, 'w').write('#!/bin/sh\necho ran'); os.chmod(p, 0o755)
    try: print(subprocess.run([p], capture_output=True).stdout)
    except OSError as e: print(e.errno)
print(os.statvfs('/tmp').f_blocks * os.statvfs('/tmp').f_frsize >> 20, bool(os.statvfs('/tmp').f_flag & os.ST_NOSUID))`)
		if got := r.stdout.String(); got != "13\n13\n64 True\n" {
			t.Errorf("got %q", got)
		}
	})
}
