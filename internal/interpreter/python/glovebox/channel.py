# SPDX-License-Identifier: Apache-2.0
"""The channel to the guest: frames in and out, in exact order.

Text is gathered in bursts, because a frame costs a system call and a wake-up of the
guest, but a line printed now and then leaves at once. Everything that is not text
first sends the text before it.
"""

import _thread
import json
import os
import sys
from contextvars import ContextVar
from os import _exit, read, write, writev  # user code may break os
from time import monotonic

from glovebox import OWN as __builtins__
from glovebox import limits

CELL = 0x01
PREPARE = 0x02
FORK = 0x03
READY = 0x11
STDOUT = 0x20
STDERR = 0x21
DISPLAY = 0x22
RESULT = 0x23
ERROR = 0x24
NOTICE = 0x25
VALUE = 0x26
DONE = 0x2F

FLAG_MORE = 1

# The cell that the running code belongs to. Tasks inherit it from the code that made
# them; threads get it from hooks.py. That is how late output of an earlier cell is told
# from the running cell's.
owner = ContextVar("glovebox_cell")


def header(kind, flags, cell, size):
    return size.to_bytes(4) + bytes((limits.VERSION, kind, flags, 0)) + cell.to_bytes(4)


def frames(kind, cell, payload):
    """Yields (header, payload) of each frame of a message that is not a stream."""
    view = memoryview(payload)
    start, size = 0, len(view)
    while True:
        part = view[start : start + limits.MAX_PAYLOAD]
        start += len(part)
        yield header(kind, FLAG_MORE if start < size else 0, cell, len(part)), part
        if start >= size:
            return


def encode(value):
    """Returns value as JSON in UTF-8, whatever is in it."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError, OverflowError):
        from glovebox.jsonsafe import clean

        text = json.dumps(clean(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate has no place in UTF-8
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


class Channel:
    """The guest's descriptor. Safe for use by threads and by forked children."""

    def __init__(self, descriptor):
        self.cell = 0  # the id of the running cell, 0 between cells
        self.postponed = []  # (handler, number) of signals that came while our own code ran
        self.from_signal = None  # what a signal's handler raised last
        self.descriptor = descriptor
        self._lock = _thread.RLock()
        self._main = _thread.get_ident()
        self.is_child = False
        self._muted = False
        self._gathered = []
        self._gathered_size = 0
        self._gathered_key = None
        self._credit = limits.DIRECT_WRITES
        self._credited_at = 0.0
        self._flusher = None
        self._texts = ()
        self._busy = False  # a message is being put together or written
        self._later = []  # what a destructor wrote meanwhile
        self._flushing = False  # streams of the user's are being flushed
        os.set_blocking(descriptor, True)
        os.set_inheritable(descriptor, False)
        os.register_at_fork(before=self._before_fork, after_in_child=self._in_child)

    def mute(self, muted):
        """Drops what is sent from now on, or sends again."""
        self._muted = muted
        self._credit = limits.DIRECT_WRITES  # nothing is gathered for a thread to send later
        self.cell = 0
        owner.set(0)

    def own_texts(self, *streams):
        """Names the text streams whose held-back text goes out before any other frame."""
        self._texts = streams

    # Receiving.

    def receive(self):
        """Returns the next message as (kind, id, payload), or None at the end of the stream."""
        whole = []
        while True:
            head = self._read(limits.HEADER_SIZE)
            if head is None:
                return None
            size = int.from_bytes(head[:4])
            if head[4] != limits.VERSION or size > limits.MAX_PAYLOAD:
                return None
            payload = self._read(size)
            if payload is None:
                return None
            whole.append(payload)
            if not head[6] & FLAG_MORE:
                return head[5], int.from_bytes(head[8:]), b"".join(whole)

    def _read(self, size):
        parts = []
        while size:
            try:
                part = read(self.descriptor, size)
            except OSError:
                return None
            if not part:
                return None
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    # Sending.

    def text(self, kind, data):
        """Sends bytes of a text stream; small writes in quick succession are gathered."""
        if self.is_child:
            _write_all(1 if kind == STDOUT else 2, data)
            return
        cell = owner.get(self.cell)
        self._exclusively(self._gather, (kind, cell if cell == self.cell else 0), data)
        if not self._flushing:
            self.run_postponed()

    def send(self, kind, value, cell=None):
        """Sends a message with a JSON payload, after all text before it."""
        if self.is_child:
            return  # a forked child has no say on the channel; its text goes through the pipes
        payload = encode(value)
        if len(payload) > limits.MAX_MESSAGE:
            payload = encode({"code": "output.too_large", "text": _too_large(len(payload))})
            kind = NOTICE
        if cell is None:
            cell = owner.get(self.cell)
            cell = cell if cell == self.cell else 0
        self.flush()
        self._exclusively(self._send_frames, kind, cell, payload)

    def send_ready_made(self, kind, cell, payload):
        """Sends a payload that is JSON already, with as little help from the rest of Python as can be."""
        self._exclusively(self._send_frames, kind, cell, payload)

    def flush(self):
        """Sends all text that is held back."""
        self._flushing = True
        for stream in (*self._texts, sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # user code closed, detached or replaced it: its own output is lost
                pass
        self._flushing = False
        self._exclusively(self._send_gathered)

    def run_postponed(self):
        """Runs the handlers of signals that came while our own code was busy; they may raise."""
        while self.postponed and _thread.get_ident() == self._main:
            handler, number = self.postponed.pop(0)
            self.handle(handler, number, sys._getframe())

    def handle(self, handler, number, frame):
        """Runs the handler of a signal. What it raises ends what the user's code does, whatever frame it hits."""
        try:
            handler(number, frame)
        except BaseException as error:
            self.from_signal = error
            raise

    def _exclusively(self, action, *arguments):
        """Does one thing with the channel at a time. Signals wait meanwhile (see hooks.py); a destructor that
        the collector happens to run in between may print, and its turn comes right after."""
        with self._lock:
            if self._busy:
                self._later.append((action, arguments))
                return
            self._busy = True
            try:
                action(*arguments)
                while self._later:
                    action, arguments = self._later.pop(0)
                    action(*arguments)
            finally:
                self._busy = False

    def _gather(self, key, data):
        if key != self._gathered_key and self._gathered:
            self._send_gathered()
        self._gathered_key = key
        if len(data) > limits.GATHER_BYTES:
            self._send_gathered()
            self._send_text(key, data)
            return
        self._gathered.append(bytes(data))
        self._gathered_size += len(data)
        if self._gathered_size >= limits.GATHER_BYTES or self._may_send():
            self._send_gathered()
        elif self._flusher is None:
            self._start_flusher()

    def _send_frames(self, kind, cell, payload):
        self._send_gathered()
        for head, part in frames(kind, cell, payload):
            self._write(head, part)

    def _may_send(self):
        now = monotonic()
        earned = int((now - self._credited_at) / limits.DIRECT_REFILL_SECONDS)
        if earned > 0:
            self._credit = min(limits.DIRECT_WRITES, self._credit + earned)
            self._credited_at = now
        if self._credit == 0:
            return False
        self._credit -= 1
        return True

    def _send_gathered(self):
        if self._gathered:
            data = b"".join(self._gathered)
            self._gathered.clear()
            self._gathered_size = 0
            self._send_text(self._gathered_key, data)

    def _send_text(self, key, data):
        kind, cell = key
        view = memoryview(data)
        for start in range(0, len(view), limits.MAX_PAYLOAD):
            part = view[start : start + limits.MAX_PAYLOAD]
            self._write(header(kind, 0, cell, len(part)), part)

    def _write(self, head, part):
        if self._muted:
            return
        try:
            sent = writev(self.descriptor, (head, part))
            if sent < len(head):
                _write_all(self.descriptor, head[sent:])
                sent = len(head)
            if sent < len(head) + len(part):
                _write_all(self.descriptor, part[sent - len(head) :])
        except OSError:
            _exit(1)  # the guest is gone, and so is every reason to run

    def _start_flusher(self):
        try:
            self._flusher = _thread.start_joinable_thread(self._flush_soon, daemon=True)
        except RuntimeError:  # no more threads are allowed here
            self._send_gathered()

    def _flush_soon(self):
        """Runs in a thread while there is a burst of writes; it ends by itself soon after."""
        pause = _thread.allocate_lock()
        pause.acquire()
        idle = 0
        while True:
            pause.acquire(timeout=limits.GATHER_SECONDS)
            with self._lock:
                idle = 0 if self._gathered else idle + 1
                self._exclusively(self._send_gathered)
                if idle >= limits.GATHER_IDLE_ROUNDS or self._flusher is None:
                    self._flusher = None
                    return

    # Forks. A thread of ours at the moment of a fork would earn user code a warning.

    def _before_fork(self):
        if self.is_child:
            return
        self.flush()
        with self._lock:
            if self._busy:
                return  # a destructor forks in the middle of a write
            flusher, self._flusher = self._flusher, None
        if flusher is not None:
            flusher.join()

    def _in_child(self):
        if not self.is_child:
            self.is_child = True
            self._lock = _thread.RLock()
            self._gathered.clear()
            self._later.clear()
            self._busy = False
            os.close(self.descriptor)

    def take_over(self, descriptor):
        """In a fork that is a session of its own: the descriptor is its channel, and this thread its only one."""
        self.descriptor = descriptor
        os.set_blocking(descriptor, True)
        os.set_inheritable(descriptor, False)
        self._lock = _thread.RLock()
        self._main = _thread.get_ident()
        self._flusher = None
        self._busy = self._flushing = False
        self.postponed.clear()
        self.from_signal = None
        self.cell = 0
        self.is_child = False


def _write_all(descriptor, data):
    view = memoryview(data)
    while view:
        view = view[write(descriptor, view) :]


def _too_large(size):
    return f"An output of {size:,} bytes was left out: at most {limits.MAX_MESSAGE:,} bytes can be sent at once."
