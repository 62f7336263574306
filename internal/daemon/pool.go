// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"time"

	"glovebox/internal/config"
	"glovebox/internal/engine"
	"glovebox/internal/policy"
	"glovebox/internal/pool"
	"glovebox/internal/sandbox"
)

// Settings of the pool that nobody needs to set.
const (
	poolWindow = 5 * time.Second
	poolForget = 10 * time.Minute
	poolRetry  = 10 * time.Second
	poolCheck  = 2 * time.Second
	// poolPause is a little longer than a short run takes.
	poolPause = 20 * time.Millisecond

	// poolFillers keep two processors busy when a crowd has emptied the shelves.
	poolFillers = 3
)

// pool puts a pool in front of each backend. The classes of the default image and policy are kept ready from the start.
func (s *System) pool(ctx context.Context, c config.Config, images engine.Images, newID func() sandbox.ID) error {
	if !c.Pool.Enabled {
		return nil
	}
	decision, err := policy.Decide(c.Policy, policy.Overrides{}, c.Maxima.Limits())
	if err != nil {
		return err
	}
	var keep []sandbox.Class
	// An image that is not there yet is a refusal to each request, not to the start of the server.
	if ref, release, err := images.Use(c.Image); err == nil {
		release() // each sandbox holds it itself
		for _, warmth := range []sandbox.Warmth{sandbox.WarmPlain, sandbox.WarmChart} {
			keep = append(keep, sandbox.Class{Image: ref, Profile: decision.Profile, Network: decision.Network, Warm: warmth})
		}
	}
	for i, backend := range s.backends {
		if capabilities, err := backend.Probe(ctx); err != nil || !capabilities.Warm {
			continue // it has no warm sandboxes, or cannot say: requests tell
		}
		pooled, err := pool.New(backend, pool.Config{
			Min: c.Pool.Min, Max: c.Pool.Max, Total: c.Pool.Total, Fillers: poolFillers, MaxAge: time.Duration(c.Pool.MaxAge),
			Window: poolWindow, Forget: poolForget, Retry: poolRetry, Pause: poolPause, Check: poolCheck,
			Keep: keep, NewID: newID, Now: time.Now, Log: s.log,
		})
		if err != nil {
			return err
		}
		s.backends[i] = pooled
	}
	return nil
}
