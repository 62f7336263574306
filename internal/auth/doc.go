// SPDX-License-Identifier: Apache-2.0

// Package auth says who a caller is and what they may do: API keys, their scopes, and the Principal that a request is
// carried out for.
//
// A key is shown once, when it is made. What is kept is the SHA-256 of it: a key has 256 random bits, so no slow hash is
// needed, and a check costs microseconds. Its text is
//
//	gbx_ID_SECRETCHECKSUM
//
// with a prefix that scanners of leaked secrets can look for, an id by which it is found and named in lists and logs, and
// a checksum that tells a mistyped key from one that was never made, without asking the store.
//
// A key belongs to one tenant. Everything that a request makes belongs to its key's tenant, and everything that it asks
// for is looked up with that tenant: what is another's does not exist.
package auth
