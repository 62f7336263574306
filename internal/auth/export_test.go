// SPDX-License-Identifier: Apache-2.0

package auth

// WithChecksum gives a text of a key's length the checksum that it should have.
func WithChecksum(text string) string {
	body := text[:keyLength-checksumLength]
	return body + checksum(body)
}
