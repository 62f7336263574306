// SPDX-License-Identifier: Apache-2.0

// Package blackbox drives one real server over HTTP alone, on real sandboxes, as a client would: what comes out of a run
// is compared with what users of such services have been promised and did not always get. The cases are numbered as in
// the collection beside the checkout (../shared/cases), and each stands for its kind, so each has several inputs.
//
// The server is this test's own binary in a process of its own, so that its memory can be looked at.
package blackbox
