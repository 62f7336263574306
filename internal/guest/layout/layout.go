// SPDX-License-Identifier: Apache-2.0

// Package layout is where things are inside a box, and who its users are.
package layout

// The paths inside.
const (
	// Workspace is the home and working folder of user code.
	Workspace = "/home/user"
	// Data holds the uploads, read-only.
	Data = "/data"
	Tmp  = "/tmp"
	Shm  = "/dev/shm"
)

// The users inside: user code never runs as root here.
const (
	RootUID   = 0
	UserUID   = 1000
	NobodyUID = 65534
)
