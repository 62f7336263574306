// SPDX-License-Identifier: Apache-2.0

// Package escapes attacks the wall: hostile programs run in real sandboxes with the analyzer off, and each must end as
// its header says. The programs are samples of their kinds and live outside the repository, in ../shared/attacks, plus
// our own beside this file.
package escapes
