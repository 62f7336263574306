// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What Claim says of a request that came under a name before.
var (
	// ErrUnderWay: the first request of this name has no answer yet.
	ErrUnderWay = errors.New("the first request with this Idempotency-Key is under way")
	// ErrOtherRequest: the name was used for another request.
	ErrOtherRequest = errors.New("this Idempotency-Key was used for another request")
)

// Claim takes a name for a request of the tenant. A first request gets an empty answer and must call Answer or Unclaim; a
// repeated one gets the first one's answer, or one of the errors above.
func (s *Store) Claim(ctx context.Context, tenant, name, request string, at time.Time) (answer string, err error) {
	added, err := s.exec(ctx, `INSERT INTO answers (tenant, name, request, answer, created) VALUES ($1, $2, $3, '', $4)
		ON CONFLICT (tenant, name) DO NOTHING`, tenant, name, request, micros(at))
	if err != nil {
		return "", fmt.Errorf("claim an Idempotency-Key: %w", err)
	}
	if added == 1 {
		return "", nil
	}
	var first string
	err = s.db.QueryRowContext(ctx, "SELECT request, answer FROM answers WHERE tenant = $1 AND name = $2", tenant, name).Scan(&first, &answer)
	switch {
	case errors.Is(absent(err), ErrNotFound):
		return "", ErrUnderWay // the first one has just failed: its client may try again
	case err != nil:
		return "", fmt.Errorf("look an Idempotency-Key up: %w", err)
	case first != request:
		return "", ErrOtherRequest
	case answer == "":
		return "", ErrUnderWay
	}
	return answer, nil
}

// Answer keeps the answer to a claimed name, which must not be empty.
func (s *Store) Answer(ctx context.Context, tenant, name, answer string) error {
	_, err := s.exec(ctx, "UPDATE answers SET answer = $1 WHERE tenant = $2 AND name = $3", answer, tenant, name)
	return err
}

// Unclaim gives a name back whose request made nothing.
func (s *Store) Unclaim(ctx context.Context, tenant, name string) error {
	_, err := s.exec(ctx, "DELETE FROM answers WHERE tenant = $1 AND name = $2 AND answer = ''", tenant, name)
	return err
}

// UnclaimLost gives back the names whose requests an earlier server took with it.
func (s *Store) UnclaimLost(ctx context.Context) error {
	_, err := s.exec(ctx, "DELETE FROM answers WHERE answer = ''")
	return err
}
