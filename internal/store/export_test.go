// SPDX-License-Identifier: Apache-2.0

package store

import "context"

// PretendNewer marks the database as made by a newer program.
func PretendNewer(ctx context.Context, s *Store) error {
	_, err := s.exec(ctx, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, TRUE)")
	return err
}
