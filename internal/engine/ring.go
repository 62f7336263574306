// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"slices"
	"sync"
)

// The limits of what is kept of a process's output.
const (
	MaxProcessOutput = 256 << 10
	// maxPieces bounds how many pieces that is in: alternating streams make small ones.
	maxPieces = 2048
	pieceSize = 32 << 10
)

// Piece is some output of one stream. Offsets count the bytes of both streams in the order in which they came.
type Piece struct {
	Offset int64
	Stream string
	Data   []byte
}

// Printed is what a process printed from an offset on.
type Printed struct {
	Pieces []Piece
	// From is where the output begins: later than was asked when the bytes before it are not kept any more. Next is where
	// to go on.
	From, Next int64
	// Over says that the process has ended and nothing follows.
	Over bool
}

// ring keeps the last of what a process printed.
type ring struct {
	mu            sync.Mutex
	pieces        []Piece
	oldest, total int64
	over          bool
	changed       chan struct{}
}

func newRing() *ring { return &ring{changed: make(chan struct{})} }

func (r *ring) tellLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *ring) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.tellLocked()
}

func (r *ring) add(stream string, data []byte) {
	if len(data) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for part := range slices.Chunk(data, pieceSize) {
		r.addLocked(stream, part)
	}
	for len(r.pieces) > maxPieces || r.total-r.oldest > MaxProcessOutput {
		r.dropLocked()
	}
	r.tellLocked()
}

func (r *ring) addLocked(stream string, part []byte) {
	if n := len(r.pieces); n > 0 {
		if last := &r.pieces[n-1]; last.Stream == stream && len(last.Data)+len(part) <= pieceSize {
			last.Data = append(last.Data, part...)
			r.total += int64(len(part))
			return
		}
	}
	r.pieces = append(r.pieces, Piece{Offset: r.total, Stream: stream, Data: bytes.Clone(part)})
	r.total += int64(len(part))
}

// dropLocked forgets the oldest piece, or as much of it as is too much.
func (r *ring) dropLocked() {
	first := &r.pieces[0]
	excess := r.total - r.oldest - MaxProcessOutput
	if len(r.pieces) <= maxPieces && excess < int64(len(first.Data)) {
		first.Data, first.Offset = first.Data[excess:], first.Offset+excess
		r.oldest = first.Offset
		return
	}
	r.oldest += int64(len(first.Data))
	r.pieces[0] = Piece{}
	r.pieces = r.pieces[1:]
}

func (r *ring) bounds() (from, to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.oldest, r.total
}

// read returns what there is from an offset on. With wait it waits until there is something, or nothing will follow.
func (r *ring) read(ctx context.Context, offset int64, wait bool) (Printed, error) {
	for {
		r.mu.Lock()
		out := r.fromLocked(offset)
		changed := r.changed
		r.mu.Unlock()
		if len(out.Pieces) > 0 || out.Over || !wait {
			return out, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return out, context.Cause(ctx)
		}
	}
}

func (r *ring) fromLocked(offset int64) Printed {
	offset = min(max(offset, r.oldest), r.total)
	out := Printed{From: offset, Next: r.total, Over: r.over}
	for _, p := range r.pieces {
		end := p.Offset + int64(len(p.Data))
		if end <= offset {
			continue
		}
		if p.Offset < offset {
			p.Data, p.Offset = p.Data[offset-p.Offset:], offset
		}
		out.Pieces = append(out.Pieces, p)
	}
	return out
}
