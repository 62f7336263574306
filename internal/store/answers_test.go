// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"testing"

	"glovebox/internal/store"
)

func idempotency(t *testing.T, s *store.Store) {
	claim := func(request string) (string, error) { return s.Claim(t.Context(), "answers", "name", request, noon) }
	if answer, err := claim("r1"); answer != "" || err != nil {
		t.Fatal(answer, err)
	}
	if _, err := claim("r1"); !errors.Is(err, store.ErrUnderWay) {
		t.Error(err)
	}
	if err := s.Unclaim(t.Context(), "answers", "name"); err != nil {
		t.Error(err)
	}
	if answer, err := claim("r1"); answer != "" || err != nil {
		t.Error(answer, err)
	}
	if err := s.Answer(t.Context(), "answers", "name", "made b1"); err != nil {
		t.Error(err)
	}
	if answer, err := claim("r1"); answer != "made b1" || err != nil {
		t.Error(answer, err)
	}
	if _, err := claim("r2"); !errors.Is(err, store.ErrOtherRequest) {
		t.Error(err)
	}
	if answer, err := s.Claim(t.Context(), "another", "name", "r2", noon); answer != "" || err != nil {
		t.Errorf("another tenant's name: %q %v", answer, err)
	}
	if err := s.UnclaimLost(t.Context()); err != nil {
		t.Error(err)
	}
	if answer, err := claim("r1"); answer != "made b1" || err != nil {
		t.Errorf("an answer was lost with the claims: %q %v", answer, err)
	}
}
