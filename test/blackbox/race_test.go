// SPDX-License-Identifier: Apache-2.0

//go:build race

package blackbox_test

// raceEnabled says that the race detector multiplies the memory of the server.
const raceEnabled = true
