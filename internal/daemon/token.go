// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"glovebox/internal/config"
	"glovebox/internal/engine"
)

func tokenPath(data string) string { return filepath.Join(data, "token") }

// token returns the configured token, the kept one, or a new one.
func token(c config.Config) (text string, isNew bool, err error) {
	if c.Token != "" {
		return string(c.Token), false, nil
	}
	path := tokenPath(c.Data)
	kept, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err := newToken(path)
		return text, true, err
	}
	if err != nil {
		return "", false, storageProblem(c.Data, err)
	}
	text = strings.TrimSpace(string(kept))
	if len(text) < config.MinToken {
		return "", false, &engine.Problem{Code: engine.CodeStorage, Text: fmt.Sprintf(
			"the token in %s is shorter than %d characters: delete the file, and a new one is made", path, config.MinToken)}
	}
	return text, false, os.Chmod(path, 0o600)
}

// newToken makes a token and keeps it for its owner alone.
func newToken(path string) (string, error) {
	text := "gbx_" + rand.Text() + rand.Text()
	file, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return "", storageProblem(filepath.Dir(path), err)
	}
	_, err = file.WriteString(text + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return "", storageProblem(filepath.Dir(path), errors.Join(err, os.Remove(file.Name())))
	}
	return text, nil
}
