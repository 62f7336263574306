# SPDX-License-Identifier: Apache-2.0
"""The loop: one cell in, its frames out."""

import _signal
import os
import sys
from os import _exit  # user code may break os

from glovebox import OWN as __builtins__
from glovebox import audit, display, hooks, limits, namespace, streams
from glovebox import channel as wire
from glovebox.cell import Runner

# Our own code must not be torn apart between two steps: a signal's handler waits until it is done. Only where we
# wait for something is there nothing to tear; the look of audit.py is a part of what the code itself does.
HERE = __file__[: -len("session.py")]
WAITING = (HERE + "magics.py", HERE + "charts/waiting.py", HERE + "leaving.py", HERE + "awaiting.py", HERE + "audit.py")

OK = "ok"
ERROR = "error"
EXIT = "exit"
INTERRUPTED = "interrupted"

_BROKEN = (
    b'{"name":"InterpreterBroken","traceback":"","value":"the code changed what the interpreter itself needs '
    b'(builtins or modules), so it cannot say how the cell ended; restart the session, or mend it"}'
)


class Session:
    """A live interpreter behind a descriptor. One a process."""

    def __init__(self, descriptor):
        self.channel = wire.Channel(descriptor)
        self.module = namespace.new_main()
        self.runner = Runner(self)
        self.charts = 0  # charts shown by the running cell
        self.folder = None  # the working folder, once there is one
        self._interruptible = False
        self._last = None  # the value that "_" stands for

    def serve(self):
        """Runs cells until the guest closes the channel or a cell is the last one. Never returns."""
        avoid_threads()
        self.install()
        self._enter_folder()
        self._loop({})

    def serve_forked(self):
        """The same in a fork of a zygote, which installed the session; its lease comes by the channel."""
        self._start_over()
        self._loop({"pid": os.getpid()})

    def install(self):
        """Puts the session into the places of this interpreter where user code meets it."""
        streams.install(self.channel)
        hooks.install(self)
        display.install(self)
        audit.tell(self)
        sys.breakpointhook = _no_debugger
        sys.displayhook = self.show_result

    def rehearse(self, code):
        """Runs a cell that nobody sees and that leaves nothing, so that later ones find its ways trodden."""
        self.channel.mute(True)
        self._run(0, {"code": code, "name": "rehearsal"})
        self.channel.mute(False)
        self.runner.forget_sources()
        self._start_over()

    def _start_over(self):
        self.module = namespace.new_main()
        self.runner = Runner(self)
        self._last = None

    def _loop(self, about):
        _signal.signal(_signal.SIGINT, self.on_interrupt)  # from now on none ends the process between cells
        _count_processors()
        self.channel.send(wire.READY, {"language": "python", "version": sys.version.split()[0], **about}, cell=0)
        while True:
            message = self.channel.receive()
            kind = message[0] if message else None
            if kind == wire.PREPARE:
                from glovebox import lease

                lease.apply(message[2])
                if self.folder is None:
                    self._enter_folder()
                _count_processors()
            elif kind == wire.FORK:
                self._fork(message[1])
            elif kind == wire.CELL:
                cell = {}
                try:
                    cell = namespace.read_cell(message[2])
                    self._run(message[1], cell)
                except BaseException:
                    self._give_up(message[1])
                    if cell.get("last"):
                        _exit(1)
            else:
                _exit(0)

    def _enter_folder(self):
        self.folder = os.getcwd()
        sys.path.append(self.folder)  # last: an uploaded file can be imported, and can replace nothing

    def _fork(self, number):
        from glovebox import forking

        try:
            if forking.fork(self):
                self.channel.send(wire.READY, {"language": "python", "version": sys.version.split()[0], "pid": os.getpid()}, cell=0)
                return
            status = OK
        except Exception as error:
            if self.channel.is_child:
                _exit(1)
            from glovebox import faults

            self.channel.send(wire.ERROR, faults.describe(error), cell=number)
            status = ERROR
        self.channel.send(wire.DONE, {"status": status, "exit_code": int(status != OK)}, cell=number)

    # One cell.

    def _run(self, number, cell):
        self.channel.cell = number
        wire.owner.set(number)
        self.charts = 0
        audit.new_cell()
        _signal.signal(_signal.SIGINT, self.on_interrupt)  # a cell's own handler ends with the cell
        namespace.prepare(self, cell)
        status, code = self._guard(lambda: self.runner.run(cell), whole=True)
        if cell.get("last"):
            from glovebox import leaving

            leaving.leave(self, cell, status, code)
        self._finish_cell(cell)
        self.channel.flush()
        self.channel.send(wire.DONE, {"status": status, "exit_code": code}, cell=number)
        self.channel.cell = 0

    def _give_up(self, number):
        """Ends a cell when even reporting failed, because user code broke what our own code stands on."""
        self._interruptible = False
        self.channel.send_ready_made(wire.ERROR, number, _BROKEN)
        self.channel.send_ready_made(wire.DONE, number, b'{"status":"error","exit_code":1}')
        self.channel.cell = 0

    def _finish_cell(self, cell):
        if cell.get("return"):
            from glovebox import values

            self._guard(lambda: values.send(self, cell["return"]))

    def _guard(self, work, whole=False):
        """Runs work that may raise anything, reports what it raised, and returns (status, exit code)."""
        try:
            self._forget_interrupts()
            self._interruptible = True
            try:
                work()
            except BaseException:
                if whole:
                    self._capture_charts(failed=True)
                raise
            if whole:
                self._capture_charts(failed=False)
            self._interruptible = False
            self.channel.run_postponed()
            return OK, 0
        except BaseException as error:
            self._interruptible = False
            return self._report(error)

    def _capture_charts(self, failed):
        """Shows the figures that the cell left open, also when it failed."""
        figures = sys.modules.get("glovebox.charts.figures")
        if figures is not None:
            figures.flush(failed)

    def _report(self, error):
        with generous():
            if isinstance(error, SystemExit):
                from glovebox import leaving

                return EXIT, leaving.exit_code(error)
            from glovebox import faults

            self.channel.send(wire.ERROR, faults.describe(error))
            del error
        return (INTERRUPTED, 130) if faults.interrupted else (ERROR, 1)

    # What user code reaches.

    def show_result(self, value):
        """sys.displayhook: the value of the last expression."""
        if value is None:
            return
        names = self.module.__dict__
        if names.get("_", self._last) is self._last:  # a "_" that user code set is left alone
            names["_"] = self._last = value
        from glovebox import bundle

        bundle.show(self, value, wire.RESULT)

    def notice(self, code, text):
        """Tells the user something that is neither output nor an error."""
        self.channel.send(wire.NOTICE, {"code": code, "text": text})

    # Interrupts.

    def _forget_interrupts(self):
        """A SIGINT that came when the last cell was over is not meant for the next one."""
        self.channel.postponed[:] = [item for item in self.channel.postponed if item[0] is not _raise_interrupt]

    def on_interrupt(self, number, frame):
        """The handler of SIGINT: ends the running cell, and does nothing between cells."""
        if self._interruptible or self.channel.is_child:
            self.on_signal(_raise_interrupt, number, frame)

    def on_signal(self, handler, number, frame):
        """Runs a signal's handler, or puts it off until our own code has done what it is at."""
        file = frame.f_code.co_filename if frame is not None else ""
        if file.startswith(HERE) and file not in WAITING:
            self.channel.postponed.append((handler, number))
        else:
            self.channel.handle(handler, number, frame)


def _raise_interrupt(_number, _frame):
    raise KeyboardInterrupt


def avoid_threads():
    """Keeps Arrow, which pandas loads, from starting a thread: forking is unsafe with threads, and warned of."""
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")


class generous:
    """Room for our own work after user code lowered the limits or used them up."""

    def __enter__(self):
        self._depth, self._digits = sys.getrecursionlimit(), sys.get_int_max_str_digits()
        try:
            sys.setrecursionlimit(max(self._depth, 1000))
        except RecursionError:
            pass
        sys.set_int_max_str_digits(limits.MAX_INT_DIGITS)

    def __exit__(self, *_):
        sys.set_int_max_str_digits(self._digits)
        try:
            sys.setrecursionlimit(self._depth)
        except RecursionError:  # the stack is deeper than user code's limit allows here
            pass


def _count_processors():
    """Isolated mode does not read PYTHON_CPU_COUNT, and a forked interpreter started before it was known."""
    count = os.environ.get("PYTHON_CPU_COUNT", "")
    if count.isascii() and count.isdigit() and len(count) < 6:
        os.cpu_count = os.process_cpu_count = lambda: int(count)


def _no_debugger(*_args, **_kwargs):
    raise streams.StdinNotImplementedError(
        "a debugger needs a keyboard, and a sandbox has none: print the values instead"
    )
