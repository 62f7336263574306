// SPDX-License-Identifier: Apache-2.0

// Package faults kills parts of a running system under load: what callers see is their own right answer or one clear
// failure of ours, and the system recovers by itself.
package faults
