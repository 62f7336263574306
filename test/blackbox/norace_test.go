// SPDX-License-Identifier: Apache-2.0

//go:build !race

package blackbox_test

const raceEnabled = false
