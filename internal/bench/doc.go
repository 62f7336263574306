// SPDX-License-Identifier: Apache-2.0

// Package bench measures this program on the host it runs on, next to others that do the same work with the same root
// file system in the same run.
//
// What makes the figures worth something:
//   - Subjects take turns, one run each, so that a disturbance hits all alike; each runs every work once, unmeasured,
//     before the first turn.
//   - Every output is checked. A wrong answer is an error, and errors are not in the percentiles but are counted.
//   - With a stated rate the schedule is fixed beforehand, and latency counts from the scheduled moment: a stall is paid
//     by every request that it delayed (no coordinated omission).
//   - A percentile is a value that occurred (nearest rank).
//   - The time to the result and the time to the end, when nothing of the sandbox is left, are told apart.
//   - The report names the machine, its load, and how many processors other work took meanwhile.
//
// To add a scenario: a method of run and a row in scenarios. To add a peer: a constructor and a row in peers.
package bench
