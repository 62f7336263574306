// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"strings"
	"testing"

	"glovebox/internal/store"
)

// reserved: one server has a database, and another one is told whose it is.
func reserved(t *testing.T, first, second *store.Store) {
	t.Helper()
	if err := first.Reserve(t.Context(), "first pid 1"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := second.Reserve(t.Context(), "second"); !errors.Is(err, store.ErrReserved) || !strings.Contains(err.Error(), "first pid 1") {
			t.Errorf("the second server: %v", err)
		}
		if err := first.Reserved(t.Context()); err != nil {
			t.Errorf("the first server: %v", err)
		}
	}
}

// identity: a database has one name, whoever asks first.
func identity(t *testing.T, first, second *store.Store) {
	t.Helper()
	id, err := first.Identity(t.Context())
	if other, otherErr := second.Identity(t.Context()); err != nil || otherErr != nil || id == "" || id != other {
		t.Errorf("identity %q, then %q: %v, %v", id, other, err, otherErr)
	}
}
