// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"strconv"
	"strings"
)

// Work is a program that every subject runs, and what it must print.
type Work struct {
	Name, Title, Code string
	// Want is the whole output; where it is empty the output is a figure that the scenario reads.
	Want string
}

// check compares what was printed, without blanks at both ends.
func (w Work) check(output string) error {
	if got := strings.TrimSpace(output); w.Want != "" && got != w.Want {
		return fmt.Errorf("work %s printed %.200q in place of %q", w.Name, got, w.Want)
	}
	return nil
}

func printWork() Work { return Work{Name: "print", Title: "`print(1)`", Code: "print(1)\n", Want: "1"} }

const groupbyCode = `import pandas as pd
frame = pd.DataFrame({
    "industry": [["steel", "food", "energy", "retail"][i % 4] for i in range(1000)],
    "debt": [(i * 7 % 100) / 100 for i in range(1000)],
})
means = frame.groupby("industry")["debt"].mean().round(4)
print(means.to_dict())
`

const groupbyWant = "{'energy': 0.5, 'food': 0.51, 'retail': 0.49, 'steel': 0.48}"

func groupbyWork() Work {
	return Work{Name: "groupby", Title: "import pandas, group 1,000 rows", Code: groupbyCode, Want: groupbyWant}
}

const chartCode = `import io
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
figure, axes = plt.subplots()
axes.bar(list(means.index), list(means.values))
axes.set_title("Mean debt ratio")
picture = io.BytesIO()
figure.savefig(picture, format="png")
plt.close(figure)
print(picture.getvalue()[1:4].decode(), len(picture.getvalue()) > 5000)
`

func chartWork() Work {
	return Work{
		Name: "chart", Title: "the same, and the first bar chart as PNG", Code: groupbyCode + chartCode,
		Want: groupbyWant + "\nPNG True",
	}
}

// works are those that can be asked for by name.
func works() []Work { return []Work{printWork(), groupbyWork(), chartWork()} }

func findWork(name string) (Work, error) {
	var names []string
	for _, w := range works() {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	return Work{}, fmt.Errorf("work %q is not known: choose from %s", name, strings.Join(names, ", "))
}

// figureMark begins the line of output with a program's own measurement: seconds, then what must be equal everywhere.
const figureMark = "measured "

// timed is a program that measures the best of its rounds itself, so that its start is not part of it.
const timed = `
import os, time
best = None
for _ in range(%d):
    began = time.perf_counter()
    work()
    took = time.perf_counter() - began
    best = took if best is None or took < best else best
print("measured", best, "processors", len(os.sched_getaffinity(0)), "threads", os.environ.get("OPENBLAS_NUM_THREADS"))
`

func overheadWorks(rounds int) []Work {
	tail := fmt.Sprintf(timed, rounds)
	return []Work{
		{Name: "python", Title: "a loop of 1.5 million steps", Code: `def work():
    total = 0
    for i in range(1_500_000):
        total += i * i % 7
    return total
` + tail},
		{Name: "numpy", Title: "ten products of 400 x 400 matrices", Code: `import numpy as np
a = np.arange(160_000, dtype=float).reshape(400, 400) / 160_000
def work():
    b = a
    for _ in range(10):
        b = a @ b
    return b
` + tail},
	}
}

// figure reads the line of a program that measured itself: milliseconds, and the circumstances.
func figure(output string) (ms float64, circumstances string, ok bool) {
	for line := range strings.Lines(output) {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), figureMark)
		if !found {
			continue
		}
		text, circumstances, _ := strings.Cut(rest, " ")
		seconds, err := strconv.ParseFloat(text, 64)
		return seconds * 1000, circumstances, err == nil
	}
	return 0, "", false
}

// forkLoop imports and runs a work's code once, then forks a child for each further run, one after the other, for a
// while: what a warm interpreter can do at most without any isolation. It prints how often.
func forkLoop(code string, seconds float64) Work {
	return Work{Name: "fork", Code: fmt.Sprintf(`import contextlib, io, os, time
code = compile(%s, "work", "exec")
def run():
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, {})
run()
began, count = time.monotonic(), 0
while time.monotonic() - began < %g:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run()
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("a child failed")
    count += 1
print("measured", (time.monotonic() - began) / count)
`, strconv.QuoteToASCII(code), seconds)}
}
