// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"sync"
	"time"

	"glovebox/internal/sandbox"
)

// fill keeps every shelf at its target until ctx ends.
func (p *Pool) fill(ctx context.Context) {
	defer close(p.done)
	var fillers sync.WaitGroup
	defer fillers.Wait()
	for ctx.Err() == nil {
		p.tidy()
		class, wait, found := p.next()
		if found {
			fillers.Go(func() {
				p.add(ctx, class)
				p.poke()
			})
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// add makes one sandbox and puts it on its shelf.
func (p *Pool) add(ctx context.Context, class sandbox.Class) {
	box, err := p.backend.Create(ctx, p.config.NewID(), class)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filling--
	s := p.shelf[class]
	if s != nil && s.filling > 0 { // a shelf that was forgotten and made anew counts from nothing
		s.filling--
	}
	switch {
	case err != nil && ctx.Err() == nil:
		p.stats.FillFailures++
		if s != nil {
			s.notBefore = p.config.Now().Add(p.config.Retry)
		}
		p.config.Log.ErrorContext(ctx, "a sandbox could not be made ready", "warmth", class.Warm, "error", err)
	case err != nil:
	case s == nil || p.closed:
		p.destroy(box)
	default:
		p.stats.Filled++
		s.ready = append(s.ready, item{box, p.config.Now()})
	}
}

// tidy drops what is too old, what nobody wants any more, and requests outside the window.
func (p *Pool) tidy() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.config.Now()
	for class, s := range p.shelf {
		for len(s.asked) > 0 && now.Sub(s.asked[0]) > p.config.Window {
			s.asked = s.asked[1:]
		}
		forgotten := !s.keep && now.Sub(s.last) > p.config.Forget
		for len(s.ready) > 0 && (forgotten || len(s.ready) > p.config.Max || now.Sub(s.ready[0].made) > p.config.MaxAge) {
			p.stats.Expired++
			p.destroy(s.ready[0].Sandbox)
			s.ready = s.ready[1:]
		}
		if forgotten {
			delete(p.shelf, class)
		}
	}
}

// next returns the class that lacks most of its target and counts a filler for it, or says how long nothing is to be
// done.
func (p *Pool) next() (_ sandbox.Class, wait time.Duration, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.config.Now()
	wait = p.config.Window
	total, most := p.filling, 0
	var class sandbox.Class
	for _, s := range p.shelf {
		total += len(s.ready)
	}
	for candidate, s := range p.shelf {
		lacking := p.target(s) - len(s.ready) - s.filling
		if delay := max(s.notBefore.Sub(now), p.pause(s, now)); delay > 0 {
			if lacking > 0 {
				wait = min(wait, delay)
			}
			continue
		}
		// Ties go to the plain kind: it is the quicker one to make.
		if lacking > most || (lacking == most && lacking > 0 && candidate.Warm == sandbox.WarmPlain) {
			class, most = candidate, lacking
		}
	}
	if most == 0 || total >= p.config.Total || p.filling >= p.config.Fillers {
		return class, wait, false
	}
	p.filling++
	p.shelf[class].filling++
	return class, 0, true
}

// target is what the window's demand asks for, within the bounds.
func (p *Pool) target(s *shelf) int { return min(max(p.config.Min, len(s.asked)), p.config.Max) }

// pause is how long the shelf is still left alone.
func (p *Pool) pause(s *shelf, now time.Time) time.Duration {
	if 2*(len(s.ready)+s.filling) < p.target(s) {
		return 0
	}
	return s.last.Add(p.config.Pause).Sub(now)
}
