// SPDX-License-Identifier: Apache-2.0

package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// builderVersion is part of every key: raise it when a step does something else
// with the same inputs, and every image is built anew.
const builderVersion = 1

// keys are the content addresses of a definition's steps.
type keys struct {
	base   string
	python string // "" when the definition installs no wheels
	node   string // "" when it installs no packages of npm
	finish string
}

// keysOf computes the keys. What is not in here must not influence a step.
func keysOf(l *loaded, arch string) keys {
	suite, _ := suiteNamed(l.Base.Suite)
	var k keys
	k.base = keyOf("base", arch, suite, sorted(l.Apt), sorted(l.Fonts.Apt))
	if l.lock != nil {
		k.python = keyOf("python", arch, suite, l.lock, sorted(l.Python.Prune))
	}
	if l.npmLock != nil {
		k.node = keyOf("node", l.npmLock)
	}
	fonts := l.Fonts
	fonts.Apt = nil
	k.finish = keyOf("finish", k.base, k.python, k.node, l.Name, l.Description, fonts, l.Languages, l.Preload,
		l.Files, l.files, l.check, l.programs, fontCacheScript, compileScript)
	return k
}

// keyOf hashes the builder's version and the JSON form of parts, whose order and
// types are fixed by the caller. Maps are written in the order of their keys.
func keyOf(step string, parts ...any) string {
	data, err := json.Marshal([]any{builderVersion, step, parts})
	if err != nil {
		panic("image: a key's part cannot be encoded: " + err.Error())
	}
	sum := sha256.Sum256(data)
	return step + "-" + hex.EncodeToString(sum[:16])
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }
