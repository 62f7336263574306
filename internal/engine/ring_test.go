// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"
)

// TestRingKeepsTheLast: whatever the sizes, what is kept is the end of what came, in order, and no more than the limit; many
// small pieces do not cost more than few large ones.
func TestRingKeepsTheLast(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 7, pieceSize, 3*pieceSize + 1, MaxProcessOutput + 5} {
		r := newRing()
		var all strings.Builder
		streams := []string{"stdout", "stderr"}
		for i := 0; all.Len() < 2*MaxProcessOutput && i < 100_000; i++ {
			part := strings.Repeat(string(rune('a'+i%26)), size)
			all.WriteString(part)
			r.add(streams[i%2], []byte(part))
		}
		from, to := r.bounds()
		out, err := r.read(t.Context(), 0, true)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, p := range out.Pieces {
			if p.Offset != from+int64(got.Len()) {
				t.Fatalf("size %d: a piece at %d, want %d", size, p.Offset, from+int64(got.Len()))
			}
			got.Write(p.Data)
		}
		switch {
		case to != int64(all.Len()) || out.From != from || out.Next != to:
			t.Errorf("size %d: from %d to %d, answer from %d to %d of %d", size, from, to, out.From, out.Next, all.Len())
		case got.String() != all.String()[from:]:
			t.Errorf("size %d: not what came", size)
		case got.Len() > MaxProcessOutput || len(out.Pieces) > maxPieces:
			t.Errorf("size %d: %d bytes in %d pieces are kept", size, got.Len(), len(out.Pieces))
		}
		if tail, err := r.read(t.Context(), to-1, false); err != nil || len(tail.Pieces) != 1 || len(tail.Pieces[0].Data) != 1 {
			t.Errorf("size %d: the last byte: %+v, %v", size, tail, err)
		}
	}
}
