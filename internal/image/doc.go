// SPDX-License-Identifier: Apache-2.0

// Package image builds and keeps root filesystems for sandboxes.
//
// A definition (a folder with image.yaml, see [Definition]) becomes an image in
// three steps, each content-addressed: its key is the hash of all it depends on,
// so that a later build repeats only what changed.
//
//	base     Debian packages and fonts, unpacked by the host's mmdebstrap
//	node     packages of npm's lock file, unpacked by the host's npm; no package code runs
//	python   wheels of the lock file, unpacked by the host's pip; no package code runs
//	finish   both joined, made safe to share, byte-compiled, font lists written, checked
//
// The layout below the data folder's "images":
//
//	lock                  held while a build or a removal runs
//	layers/KEY/           finished base, python and node steps
//	built/DIGEST/         finished images: rootfs/ and manifest.json
//	NAME -> built/DIGEST  what a name stands for
//	tmp-*                 work in progress; what a killed build left is removed by the next
//
// Trees are joined with hard links: nothing is ever written into a file that a
// layer or another image shares, it is unlinked and made anew.
//
// What this package does not do: it starts no sandbox, and it never installs
// anything at run time. Mirrors and indexes come from the host's own apt and pip
// configuration. Builds need Linux and root; the rest works anywhere.
package image
