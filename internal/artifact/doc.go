// SPDX-License-Identifier: Apache-2.0

// Package artifact takes what a program left in its working folder, host-side, after every process of the sandbox is
// gone.
//
// The folder is hostile: everything is opened relative to the folder's handle with openat2, beneath it, without links
// and without crossing a mount; only regular files are taken; counts, sizes, depths and the number of directory entries
// have limits with names. What is left out is said, with a reason. Contents are copied and hashed, and their type is
// told from the first and last bytes; nothing is parsed or unpacked.
package artifact
