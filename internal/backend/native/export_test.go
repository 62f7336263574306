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

// KillZygotes kills every zygote and waits until it is gone.
func KillZygotes(b *Backend) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.zygotes) == 0 {
		return errors.New("no zygote runs")
	}
	for _, z := range b.zygotes {
		z.kill()
		<-z.gone
	}
	return nil
}
