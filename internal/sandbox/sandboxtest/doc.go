// SPDX-License-Identifier: Apache-2.0

// Package sandboxtest holds what tests of sandboxes need: a conformance suite that every backend passes ([Run]) and a
// fake backend whose failures are planned ([NewFake]).
//
// The contract is the suite: each subtest's comment is a promise of package sandbox, and a backend is finished when it
// keeps all of them. What a backend cannot do is declared in [Features] and then asserted to be refused with a
// sandbox.UnsupportedError.
package sandboxtest
