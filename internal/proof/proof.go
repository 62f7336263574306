// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"glovebox/internal/engine"
	"glovebox/internal/policy"
)

// State is what an attack showed.
type State string

// The states.
const (
	Enforced     State = "enforced"
	NotEnforced  State = "not enforced"
	NotSupported State = "not supported"
)

// Item is one limit with its proof.
type Item struct {
	Limit    string `json:"limit"`
	State    State  `json:"state"`
	Evidence string `json:"evidence"`
	// Mend says what to do when the limit does not hold.
	Mend string `json:"mend"`
}

// Runner runs a program in a sandbox of its own.
type Runner interface {
	Run(ctx context.Context, request engine.Request, sink engine.Sink) (*engine.Execution, error)
}

// Target is what is attacked.
type Target struct {
	Backend string
	Image   string
	// Accepted are layers that the host lacks and its operator has accepted to be without.
	Accepted []string
}

// Prove attacks every limit of a target, width at a time, and returns the items in the order of the table. Each attack is
// bounded in time, memory, processes and disk.
func Prove(ctx context.Context, runner Runner, target Target, width int) ([]Item, error) {
	removeCanary, err := plantCanary()
	if err != nil {
		return nil, err
	}
	defer removeCanary()
	attacks := table()
	items := make([]Item, len(attacks))
	places := make(chan struct{}, max(1, width))
	var running sync.WaitGroup
	for i, attack := range attacks {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			items[i] = carryOut(ctx, runner, target, attack)
		})
	}
	running.Wait()
	return items, ctx.Err()
}

// Broken returns what does not hold.
func Broken(items []Item) []Item {
	var broken []Item
	for _, item := range items {
		if item.State == NotEnforced {
			broken = append(broken, item)
		}
	}
	return broken
}

// attack is one row of the table.
type attack struct {
	limit   string
	program string
	limits  func(*policy.Overrides)
	// judge looks at the record; a nil one takes the program's own line.
	judge func(x *engine.Execution) (bool, string)
	// layer is what alone enforces the limit; a host that was accepted without it does not support the limit.
	layer string
	mend  string
	// compare, in place of judge, looks at two records: without the limit and with it.
	compare func(without, with *engine.Execution) (State, string)
}

func carryOut(ctx context.Context, runner Runner, target Target, a attack) Item {
	item := Item{Limit: a.limit, Mend: a.mend}
	program, err := programs.ReadFile("attacks/" + a.program)
	if err != nil {
		item.State, item.Evidence = NotEnforced, err.Error()
		return item
	}
	request := engine.Request{Code: string(program), Name: a.program, Backend: target.Backend, Image: target.Image, Limits: tight()}
	if a.compare != nil {
		return carryOutTwice(ctx, runner, request, a)
	}
	if a.limits != nil {
		a.limits(&request.Limits)
	}
	x, err := runner.Run(ctx, request, nil)
	if err != nil {
		item.State, item.Evidence = NotEnforced, "the attack could not be run: "+err.Error()
		return item
	}
	judge := a.judge
	if judge == nil {
		judge = ownWord
	}
	held, evidence := judge(x)
	item.Evidence = evidence
	switch {
	case held:
		item.State, item.Mend = Enforced, ""
	case x.Status == "infra" || evidence == "":
		item.State = NotEnforced // silence proves nothing
		item.Evidence = fmt.Sprintf("the attack ended with %s: %s", x.Status, x.Message)
	case slices.Contains(target.Accepted, a.layer):
		item.State = NotSupported
	default:
		item.State = NotEnforced
	}
	return item
}

// tight is what attacks get: enough to try, and little to lose when a limit does not hold.
func tight() policy.Overrides {
	wall, memory, milli := 10*time.Second, int64(128<<20), int64(1000)
	processes, disk, inodes, tmp, output := int64(32), int64(16<<20), int64(2048), int64(8<<20), int64(1<<20)
	return policy.Overrides{
		Wall: &wall, Memory: &memory, MilliCPU: &milli, Processes: &processes, Disk: &disk, Inodes: &inodes, Tmp: &tmp,
		Output: &output,
	}
}

// ownWord takes the line that the program prints: enough where it could only lie to its own harm.
func ownWord(x *engine.Execution) (bool, string) {
	for line := range strings.Lines(x.Stdout) {
		line = strings.TrimSpace(line)
		if text, found := strings.CutPrefix(line, "held: "); found {
			return true, text
		}
		if text, found := strings.CutPrefix(line, "BROKEN: "); found {
			return false, text
		}
	}
	return false, ""
}
