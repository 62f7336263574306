// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"glovebox/internal/sandbox"
)

// Account keeps what tenants use. Both methods are called from many goroutines.
type Account interface {
	// Allow returns a Problem when the tenant may start nothing more.
	Allow(tenant string) error
	// Spend adds what an execution or a sandbox used, once it has ended.
	Spend(Spent)
}

// Spent is what an execution or a sandbox used.
type Spent struct {
	Tenant string
	Runs   int64
	CPU    time.Duration
	// MemorySeconds are MiB, at the peak, times the seconds that they were there.
	MemorySeconds float64
	// Stored is what is kept of it, in bytes.
	Stored int64
}

const mib = 1 << 20

// Observer is told what came of everything that was asked for. It must not block.
type Observer interface {
	// Ended is told of every execution that is over.
	Ended(*Execution)
	// Refused is told of every request that was not carried out.
	Refused(code Code)
}

// account tells what an execution used and how it ended.
func (x *execution) account() {
	e, r := x.engine, x.record
	if e.Observer != nil {
		e.Observer.Ended(r)
	}
	if e.Account == nil {
		return
	}
	spent := Spent{Tenant: r.Tenant, Runs: 1, CPU: x.result.Usage.CPU, Stored: r.Output.Stdout.Kept + r.Output.Stderr.Kept + r.Usage.ArtifactSize}
	if x.session == nil { // that of a held sandbox is counted when it ends
		spent.MemorySeconds = float64(r.Usage.MemoryPeak) / mib * r.Usage.Wall
	}
	e.Account.Spend(spent)
}

// refused counts a refusal on its way out.
func (e *Engine) refused(err error) error {
	if err != nil && e.Observer != nil {
		e.Observer.Refused(CodeOf(err))
	}
	return err
}

// accountHeld tells what a held sandbox used, but for the processor time of its cells, which is told already.
func (e *Engine) accountHeld(h *held) {
	if e.Account == nil || h.box == nil {
		return
	}
	var usage sandbox.Usage
	err := (&execution{plan: h.plan, engine: e}).cleanup("read the counters", func(ctx context.Context) (err error) {
		usage, err = h.box.Usage(ctx)
		return err
	})
	if err != nil {
		e.Log.Warn("the counters of a sandbox could not be read: its memory is charged by its limit", "id", h.id, "error", err)
		usage = sandbox.Usage{MemoryPeak: h.decision.Limits.Memory}
	}
	usage = checkUsage(usage)
	lived := e.Now().Sub(h.created)
	h.mu.Lock()
	cells := h.cells
	h.mu.Unlock()
	e.Account.Spend(Spent{
		Tenant: h.request.Who.Tenant, CPU: max(0, usage.CPU-cells),
		MemorySeconds: float64(usage.MemoryPeak) / mib * lived.Seconds(),
	})
}

// spent adds the processor time of a cell.
func (h *held) spent(x *Execution) {
	if x == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cells += time.Duration(x.Usage.CPU * float64(time.Second))
}
