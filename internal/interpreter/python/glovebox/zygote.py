# SPDX-License-Identifier: Apache-2.0
"""The zygote: imports the data stack once, and forks warm sessions into boxes.

It speaks packets (one JSON object each, descriptors beside it) with the daemon on
descriptor 3; package guest/zygote says which. It never runs user code, and nothing
that it holds may be secret: every session can read the memory it was forked with.
"""

import _signal
import array
import gc
import json
import os
import select
import signal
import socket
import sys

MAX_PACKET = 64 << 10
MAX_DESCRIPTORS = 32
CLONE_NEWPID = 0x20000000


class Zygote:
    def __init__(self, control, session):
        self.control = control
        self.session = session  # what is forked
        self.spec = None  # the confinement of every session, see setup
        self.home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.sessions = {}  # pid -> id

    def setup(self):
        """Takes the first packet, ahead of the freeze: what all sessions share."""
        from glovebox import confine

        packet, _descriptors = self.receive(wait=True)
        self.spec = confine.prepare(json.loads(packet)["confine"])

    def run(self):
        wake, poke = socket.socketpair()
        wake.setblocking(False)
        poke.setblocking(False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)  # not by the session, which puts signals off
        signal.set_wakeup_fd(poke.fileno(), warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(wake, select.POLLIN)
        self.send({"ready": True, "threads": _threads()})
        while True:
            for descriptor, _events in poll.poll():
                if descriptor == wake.fileno():
                    wake.recv(4096)
            # First: a box cannot finish dying before its sessions are reaped.
            self.reap()
            if not self.take():
                return

    def take(self):
        """Carries out one request, if there is one. False at the end of the connection."""
        try:
            packet, descriptors = self.receive()
        except BlockingIOError:
            return True
        if not packet:
            return False
        request = json.loads(packet)
        try:
            self.fork(request, descriptors)
        except Exception as error:
            self.send({"id": request["id"], "error": f"{type(error).__name__}: {error}"})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def receive(self, wait=False):
        # Not socket.recv_fds: it does not hand its flags on.
        room = socket.CMSG_LEN(MAX_DESCRIPTORS * array.array("i").itemsize)
        flags = socket.MSG_CMSG_CLOEXEC | (0 if wait else socket.MSG_DONTWAIT)
        packet, ancillary, _flags, _address = self.control.recvmsg(MAX_PACKET, room, flags)
        descriptors = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        return packet, list(descriptors)

    def fork(self, request, descriptors):
        box, channel, stdout, stderr, *cgroups = descriptors
        os.setns(box, CLONE_NEWPID)
        try:
            pid = os.fork()
            if pid == 0:
                become_session(self.session, self.spec, request, box, channel, stdout, stderr, cgroups)
        finally:
            os.setns(self.home, CLONE_NEWPID)
        self.sessions[pid] = request["id"]
        pidfd = os.pidfd_open(pid)
        try:
            self.send({"id": request["id"], "pid": pid}, [pidfd])
        finally:
            os.close(pidfd)

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.send({"id": self.sessions.pop(pid, ""), "ended": True, "status": status})

    def send(self, report, descriptors=()):
        socket.send_fds(self.control, [json.dumps(report).encode()], list(descriptors))


def become_session(session, spec, request, box, channel, stdout, stderr, cgroups):
    """The forked child: enters the box, is confined, and serves cells. Never returns."""
    try:
        from glovebox import confine, warm

        signal.set_wakeup_fd(-1)
        confine.reset_signals()
        null = os.open("/dev/null", os.O_RDONLY)
        # What is taken from high numbers cannot be overwritten by what goes to low ones.
        high = [_above(d) for d in (box, channel, stdout, stderr, null, *cgroups)]
        for descriptor, target in zip(high[4:5] + high[2:4] + high[1:2], (0, 1, 2, 3), strict=True):
            os.dup2(descriptor, target, inheritable=target < 3)
        confine.enter(spec, high[0], high[5:])
        os.chdir("/home/user")
        gc.enable()
        warm.after_fork()
        if request.get("chart"):
            warm.chart()
        session.channel.take_over(3)
        warm.rehearse(session)
        session.serve_forked()
    except BaseException as error:
        try:
            os.write(2, f"a session could not be set up: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(70)


def _above(descriptor):
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 100)


def _threads():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("Threads:"):
                return int(line.split()[1])
    return 0


def _close_fonts():
    """matplotlib keeps the font files it used open; sessions close all descriptors and open their own."""
    manager = sys.modules.get("matplotlib.font_manager")
    if manager is not None:
        manager._get_font.cache_clear()


def _check(expected):
    """Refuses to be forked unsafely: a fork lacks the other threads, and closes all descriptors."""
    opened = [d for d in map(int, os.listdir("/proc/self/fd")) if d > 3 and d not in expected and _is_open(d)]
    if _threads() != 1 or opened:
        names = [os.readlink(f"/proc/self/fd/{d}") for d in opened]
        raise RuntimeError(f"not fit to fork: {_threads()} threads, open files {names}")


def _is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False  # that of the listing itself
    return True


def main():
    try:
        _main()
    except BaseException as error:
        # The daemon's log: sys.stderr is that of the sessions by now.
        os.write(2, f"zygote: {type(error).__name__}: {error}\n".encode())
        os._exit(70)


def _main():
    from glovebox import confine, sharing, warm

    control = socket.socket(fileno=3)
    os.set_inheritable(3, False)
    confine.reset_signals()
    gc.disable()
    zygote = Zygote(control, warm.warm())
    zygote.setup()
    _close_fonts()
    sharing.share()
    _check((zygote.home, zygote.session.channel.descriptor))
    zygote.run()
