// SPDX-License-Identifier: Apache-2.0

package native

import "errors"

// KillKeeper kills the backend's keeper, as an operator or the kernel might.
func KillKeeper(b *Backend) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keeper == nil {
		return errors.New("no keeper runs")
	}
	return b.keeper.process.Kill()
}
