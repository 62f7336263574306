// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

// Prefix begins every key.
const Prefix = "gbx_"

const (
	idBytes     = 8
	secretBytes = 32
	// The lengths of the parts as text: base32 has five bits a character.
	idLength       = 13
	secretLength   = 52
	checksumLength = 7
	keyLength      = len(Prefix) + idLength + 1 + secretLength + checksumLength
)

// alphabet has no characters that are taken for each other (Crockford's, in lower case).
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

func encode(raw []byte) string {
	return base32.NewEncoding(alphabet).WithPadding(base32.NoPadding).EncodeToString(raw)
}

// encoded reports whether a text has as many characters and no others than encode writes: what it has goes to a database.
func encoded(text string, length int) bool {
	return len(text) == length && strings.Trim(text, alphabet) == ""
}

// Hash is what is kept of a key.
type Hash [sha256.Size]byte

// Equal compares in constant time.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// ErrMalformed means that the text is no key, or was mistyped.
var ErrMalformed = errors.New("this is no API key of glovebox, or it was mistyped: keys begin with " + Prefix + " and end with a checksum")

// NewKey makes a key and returns its text, which is not kept anywhere, with its id and hash.
func NewKey() (text, id string, hash Hash) {
	var random [idBytes + secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails (Go 1.24)
	id = encode(random[:idBytes])
	body := Prefix + id + "_" + encode(random[idBytes:])
	text = body + checksum(body)
	return text, id, sha256.Sum256([]byte(text))
}

// ParseKey returns the id and the hash of a key's text, or ErrMalformed.
func ParseKey(text string) (id string, hash Hash, err error) {
	if len(text) != keyLength || !strings.HasPrefix(text, Prefix) {
		return "", Hash{}, ErrMalformed
	}
	body, sum := text[:keyLength-checksumLength], text[keyLength-checksumLength:]
	id, secret, found := strings.Cut(body[len(Prefix):], "_")
	if !found || !encoded(id, idLength) || !encoded(secret, secretLength) || sum != checksum(body) {
		return "", Hash{}, ErrMalformed
	}
	return id, sha256.Sum256([]byte(text)), nil
}

// checksum is the CRC-32 of a key's text before it. It guards against typing errors, not against attackers.
func checksum(body string) string {
	return encode(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(body))))
}
