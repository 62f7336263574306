// SPDX-License-Identifier: Apache-2.0

// Package pool keeps warm sandboxes ready, so that a request does not wait for what could be done before it came. It
// stands in front of a backend as a backend: [Pool.Create] hands out a ready sandbox of the class where there is one,
// and otherwise asks the backend.
//
// Only classes with a warmth are kept ready. A ready sandbox has never run user code, serves one tenant after it is
// handed out, and never comes back.
//
// # Sizes
//
// Each class has a target between Config.Min and Config.Max: what was asked for lately, so that a burst like the last
// one finds its sandboxes. A class nobody asked for in Config.Forget keeps none. At most Config.Fillers are made at a
// time, with a low weight and not right after a request (Config.Pause), so that filling does not take the processors from
// what runs.
package pool
