// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// The limits of the protocol.
const (
	Version    = 1
	HeaderSize = 12
	// MaxPayload bounds one frame.
	MaxPayload = 256 << 10
	// MaxMessage bounds a message of several frames: a large chart or a wide table.
	MaxMessage = 32 << 20
	// MaxOpen bounds how many messages may be unfinished at once in one direction.
	MaxOpen = 16
	// MaxPending bounds the bytes of all unfinished messages together.
	MaxPending = 2 * MaxMessage
	// FlagMore says that the message goes on.
	FlagMore = 1
)

// ErrProtocol is wrapped by every error that means the other side broke the protocol.
var ErrProtocol = errors.New("protocol broken by the other side")

// Message is what a reader gets.
type Message struct {
	Kind    Kind
	ID      uint32
	Payload []byte
}

// Decode parses the JSON payload into v.
func (m Message) Decode(v any) error {
	if err := json.Unmarshal(m.Payload, v); err != nil {
		return fmt.Errorf("%w: %s does not parse: %w", ErrProtocol, m.Kind, err)
	}
	return nil
}

// Frame is one frame as it travels. Its payload is valid until the next frame is read.
type Frame struct {
	Kind    Kind
	ID      uint32
	More    bool
	Payload []byte
}

// Reader reads messages, or frames one by one. It is for one goroutine.
type Reader struct {
	source  io.Reader
	open    map[openKey][]byte
	pending int
	frames  []byte // what NextFrame reads into
}

type openKey struct {
	kind Kind
	id   uint32
}

// NewReader returns a Reader on source. It reads no more than it returns: give it a buffered source.
func NewReader(source io.Reader) *Reader {
	return &Reader{source: source, open: make(map[openKey][]byte)}
}

// Next returns the next whole message. At the end of the stream between two frames it returns io.EOF; any other end or
// a broken rule is an error, after which the stream is of no use.
func (r *Reader) Next() (Message, error) {
	for {
		kind, flags, id, payload, err := r.frame(func(n int) []byte { return make([]byte, n) })
		if err != nil {
			return Message{}, err
		}
		key := openKey{kind, id}
		begun, isOpen := r.open[key]
		if flags&FlagMore == 0 && !isOpen {
			return Message{Kind: kind, ID: id, Payload: payload}, nil
		}
		if kind.Stream() {
			return Message{}, fmt.Errorf("%w: %s may not span frames", ErrProtocol, kind)
		}
		if !isOpen && len(r.open) >= MaxOpen {
			return Message{}, fmt.Errorf("%w: more than %d messages open", ErrProtocol, MaxOpen)
		}
		if len(begun)+len(payload) > MaxMessage || r.pending+len(payload) > MaxPending {
			return Message{}, fmt.Errorf("%w: %s has more than %d bytes", ErrProtocol, kind, MaxMessage)
		}
		begun = append(begun, payload...)
		if flags&FlagMore != 0 {
			r.pending += len(payload)
			r.open[key] = begun
			continue
		}
		r.pending -= len(begun) - len(payload)
		delete(r.open, key)
		return Message{Kind: kind, ID: id, Payload: begun}, nil
	}
}

// NextFrame returns the next frame, for who passes messages on without holding them. Whether the frames of a message
// follow the rules is then for the caller to judge.
func (r *Reader) NextFrame() (Frame, error) {
	kind, flags, id, payload, err := r.frame(func(n int) []byte {
		if cap(r.frames) < n {
			r.frames = make([]byte, n)
		}
		return r.frames[:n]
	})
	return Frame{Kind: kind, ID: id, More: flags&FlagMore != 0, Payload: payload}, err
}

func (r *Reader) frame(room func(int) []byte) (Kind, byte, uint32, []byte, error) {
	var header [HeaderSize]byte
	if _, err := io.ReadFull(r.source, header[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: the stream ended inside a header", ErrProtocol)
		}
		return 0, 0, 0, nil, err
	}
	length := binary.BigEndian.Uint32(header[0:4])
	kind, flags, id := Kind(header[5]), header[6], binary.BigEndian.Uint32(header[8:12])
	switch {
	case header[4] != Version:
		return 0, 0, 0, nil, fmt.Errorf("%w: version %d, this side speaks %d", ErrProtocol, header[4], Version)
	case flags&^FlagMore != 0 || header[7] != 0:
		return 0, 0, 0, nil, fmt.Errorf("%w: unknown flags", ErrProtocol)
	case !kind.Known():
		return 0, 0, 0, nil, fmt.Errorf("%w: unknown %s", ErrProtocol, kind)
	case length > MaxPayload:
		return 0, 0, 0, nil, fmt.Errorf("%w: a frame of %d bytes, at most %d are allowed", ErrProtocol, length, MaxPayload)
	}
	payload := room(int(length))
	if _, err := io.ReadFull(r.source, payload); err != nil {
		return 0, 0, 0, nil, fmt.Errorf("%w: the stream ended inside a frame: %w", ErrProtocol, err)
	}
	return kind, flags, id, payload, nil
}

// Writer writes messages. It is safe for concurrent use; the frames of one message are not kept together.
type Writer struct {
	mu     sync.Mutex
	sink   io.Writer
	buffer []byte
}

// NewWriter returns a Writer on sink.
func NewWriter(sink io.Writer) *Writer { return &Writer{sink: sink} }

// Bytes writes a message with a raw payload; a stream kind is cut into several messages where it is long.
func (w *Writer) Bytes(kind Kind, id uint32, payload []byte) error {
	if !kind.Stream() && len(payload) > MaxMessage {
		return fmt.Errorf("message of %d bytes: at most %d can be sent", len(payload), MaxMessage)
	}
	for first := true; first || len(payload) > 0; first = false {
		n := min(len(payload), MaxPayload)
		var flags byte
		if n < len(payload) && !kind.Stream() {
			flags = FlagMore
		}
		if err := w.frame(kind, flags, id, payload[:n]); err != nil {
			return err
		}
		payload = payload[n:]
	}
	return nil
}

// Frame writes one frame.
func (w *Writer) Frame(f Frame) error {
	var flags byte
	if f.More {
		flags = FlagMore
	}
	return w.frame(f.Kind, flags, f.ID, f.Payload)
}

// Exclusively keeps every other message away while do writes to the same stream by itself.
func (w *Writer) Exclusively(do func(sink io.Writer) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return do(w.sink)
}

// JSON writes a message whose payload is v as JSON.
func (w *Writer) JSON(kind Kind, id uint32, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	return w.Bytes(kind, id, payload)
}

func (w *Writer) frame(kind Kind, flags byte, id uint32, payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	frame := append(w.buffer[:0], make([]byte, HeaderSize)...)
	binary.BigEndian.PutUint32(frame[0:4], uint32(len(payload))) //nolint:gosec // at most MaxPayload
	frame[4], frame[5], frame[6] = Version, byte(kind), flags
	binary.BigEndian.PutUint32(frame[8:12], id)
	frame = append(frame, payload...)
	w.buffer = frame
	_, err := w.sink.Write(frame)
	return err
}
