// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"fmt"
	"testing"
)

// TestForksCopyLessOfWhatTheyShare: a fork that only uses what its zygote holds must not copy it. The same work is done
// by forks of one process before and after it shares its objects, and their page faults are compared.
func TestForksCopyLessOfWhatTheyShare(t *testing.T) {
	t.Parallel()
	const script = `
import gc, os, sys
sys.path.insert(0, "/usr/lib/glovebox/python")
from glovebox import sharing, warm
session = warm.warm()

def faults():
    child = os.fork()
    if child == 0:
        session.channel.take_over(os.open("/dev/null", os.O_RDWR))
        warm.rehearse(session)
        os._exit(0)
    _, status, usage = os.wait4(child, 0)
    assert status == 0, status
    return usage.ru_minflt

faults()
before = faults()
sharing.share()
after = faults()
os.write(1, f"{before} {after}\n".encode())
`
	image := rootfs(t)
	output, err := entered(t.Context(), image, compiledFiles(t, image), t.TempDir(), "/usr/bin/python3", "-I", "-B", "-X", "utf8", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	var before, after int
	if _, err := fmt.Sscan(string(output), &before, &after); err != nil {
		t.Fatalf("%q: %v", output, err)
	}
	t.Logf("page faults of a fork: %d before, %d after", before, after)
	if after*10 > before*8 {
		t.Errorf("a fork takes %d page faults with shared objects and %d without: at most 80 %% are expected", after, before)
	}
}
