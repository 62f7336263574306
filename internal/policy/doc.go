// SPDX-License-Identifier: Apache-2.0

// Package policy turns what a caller asks for into what a run gets, or into a refusal with reasons. It is pure: no
// clock, no disk, no network.
//
// For now it holds the presets, each of limits and a mount profile, and the maxima. What it does not hold yet, on purpose: reports about code and
// tenants.
package policy
