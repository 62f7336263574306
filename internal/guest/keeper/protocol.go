// SPDX-License-Identifier: Apache-2.0

package keeper

import "glovebox/internal/guest/layer"

// ControlFD is the keeper's end of its control socket, which carries packets (package packet).
const ControlFD = 3

// What a Request asks for.
const (
	// OpBox asks for the first process of a box. The descriptors are those it starts with, from box.ChannelFD on.
	OpBox = "box"
	// OpZygote asks for a zygote. The descriptors are those of package zygote.
	OpZygote = "zygote"
)

// Request asks for a process.
type Request struct {
	Op string `json:"op"`
	ID string `json:"id"`
	// Slot chooses a box's uids within the keeper's range; no two living boxes may share one.
	Slot int `json:"slot,omitempty"`
	// Without are layers that a box goes without, see package layer.
	Without layer.Set `json:"without,omitempty"`
}

// Report is what the keeper says of a process: once that it was started, with its pidfd, or could not be; and once,
// later, that it ended.
type Report struct {
	ID     string `json:"id,omitempty"`
	Error  string `json:"error,omitempty"`
	Ended  bool   `json:"ended,omitempty"`
	Status uint32 `json:"status,omitempty"`
	// Orphan is the pid, as the keeper sees it, of a process that ended after its zygote: no ID, only Status.
	Orphan int `json:"orphan,omitempty"`
}

// A slot is a block of uids: root, user and nobody of a box. Slot 0 of the range is the keeper's own.
const (
	slotSize = 4
	// RangeSize is how many uids a keeper's range has.
	RangeSize = 65536
	// MaxSlots is how many boxes can be alive at once under one keeper.
	MaxSlots = RangeSize/slotSize - 1
)

// RootOf returns the uid, within the keeper's range, of a slot's root. See boxAttributes.
func RootOf(slot int) int { return slot * slotSize }

// SlotsOf returns how many boxes can be alive at once in a range of so many uids.
func SlotsOf(uids int) int { return uids/slotSize - 1 }

// UserOf returns the uid, within the keeper's range, of a slot's user. See boxAttributes.
func UserOf(slot int) int { return slot*slotSize + 1 }
