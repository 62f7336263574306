// SPDX-License-Identifier: Apache-2.0

// Package layer names the layers of a box, and decides which of them a guest may be told to leave out.
//
// A shipped guest leaves out two, where the host lacks them and its operator knows it: Landlock, and a uid for programs
// that is not the guest's, where a user without subordinate uids runs sandboxes. A guest
// that is built with the tag glovebox_weaken, for the test that takes each layer away in turn, leaves out whatever it is
// told to; no shipped program has that tag.
package layer
