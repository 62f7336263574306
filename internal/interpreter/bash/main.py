# SPDX-License-Identifier: Apache-2.0
"""The interpreter of Bash: a shell that reads a session's cells as one long script, and this driver beside it.

The shell is a child, since a shell can neither read the frames of the channel nor keep them out of the reach of what it
starts. It ends the session when it ends, and its exit code or signal becomes the driver's.
"""

import os
import signal
import sys

HERE = __file__[: -len("/main.py")]
sys.path.insert(0, HERE[: -len("/bash")] + "/python")
from glovebox import channel as wire  # noqa: E402

del sys.path[0]

SCRIPT = 8  # the descriptor in the shell that its script comes by
MAX_ANSWER = 4 << 20  # of one value
INTERRUPTED = 130
NOT_TAKEN = ("BASHOPTS", "BASH_VERSINFO", "EUID", "IFS", "PPID", "SHELLOPTS", "UID")
NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"


class Gone(Exception):
    """The shell has ended."""


class Shell:
    """The child, and the way to it.

    The shell opens the pipe of its answers by a path, each time anew. A descriptor that it keeps, also one that it puts
    aside while it runs the user's code, is in that code's reach, and in the way of the numbers that scripts use.
    """

    def __init__(self):
        script, self._script = os.pipe()
        # Both ends are ours, so that the path stays. That the shell is gone shows by its pidfd.
        self._answers, answers = os.pipe()
        self.answers = f"/proc/{os.getpid()}/fd/{answers}"
        self.pid = os.fork()
        if self.pid == 0:
            _become(script)
        os.close(script)
        self._pidfd = os.pidfd_open(self.pid)
        self._unread = b""

    def say(self, line):
        """Adds a line to the script. A shell that does not read any more is found to be gone by what waits for it."""
        try:
            os.write(self._script, line.encode() + b"\n")
        except BrokenPipeError:
            pass

    def forget(self):
        """Drops what was said before it was asked for."""
        import select

        self._unread = b""
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        if poll.poll(0):
            os.read(self._answers, MAX_ANSWER)  # a pipe holds less

    def until(self, mark, most=MAX_ANSWER):
        """Returns what the shell answers up to a byte. It raises Gone when the shell ends before."""
        while mark not in self._unread:
            if len(self._unread) > most:
                raise ValueError("too much")
            self._unread += self._read()
        answer, _, self._unread = self._unread.partition(mark)
        return answer.decode("utf-8", "replace")

    def _read(self):
        import select

        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        poll.register(self._pidfd, select.POLLIN)
        ready = dict(poll.poll())
        part = os.read(self._answers, 1 << 16) if ready.get(self._answers, 0) & select.POLLIN else b""
        if not part:
            raise Gone
        return part


def _become(script):
    """In the child: turns into the shell."""
    try:
        os.dup2(script, SCRIPT)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execv("/bin/bash", ["bash", "--noprofile", "--norc", f"/proc/self/fd/{SCRIPT}"])
    finally:
        os._exit(127)


class Session:
    def __init__(self, descriptor):
        self.channel = wire.Channel(descriptor)
        signal.signal(signal.SIGINT, lambda *_: None)  # the shell has the same, and knows what to do
        self.shell = Shell()
        self.files = None

    def serve(self):
        try:
            self.shell.say(f"exec {SCRIPT}<&-; source {HERE}/shell.bash; builtin printf '%s\\n' \"$BASH_VERSION\" >|{self.shell.answers}")
            self.channel.send(wire.READY, {"language": "bash", "version": self.shell.until(b"\n").partition("(")[0]}, cell=0)
            while True:
                message = self.channel.receive()
                if message is not None and message[0] == wire.FORK:
                    os.read(3, 1)  # the byte that carries descriptors
                    self._done("error", 1, message[1])  # the shell is another process, and cannot be forked from here
                    continue
                if message is not None and message[0] == wire.PREPARE:
                    self._export(message[2])
                    continue
                if message is None or message[0] != wire.CELL:
                    os._exit(0)
                self._run(message[1], message[2])
        except Gone:
            self._leave()

    def _export(self, payload):
        """Gives the shell the variables of its caller, but for those that a shell does not take from its environment."""
        import json

        for name, value in json.loads(payload)["env"].items():
            if _is_name(name) and name not in NOT_TAKEN:
                self.shell.say(f"export {name}={_quote(value)}")

    def _run(self, number, payload):
        import json

        cell = json.loads(payload)
        cell["name"] = cell["name"] or "cell"
        self.channel.cell = number
        fault = self._give(cell.get("inputs") or {})
        if fault:
            self.channel.send(wire.ERROR, {"name": "InputError", "value": fault, "traceback": fault + "\n"})
            self._done("error", 1, number)
            return
        status = self._source(cell)
        if status == "interrupted":
            self.channel.send(
                wire.ERROR, {"name": "Interrupted", "value": "the cell was interrupted", "traceback": "Interrupted\n"}
            )
            self._done("interrupted", INTERRUPTED, number)
        else:
            code = int(status) if status.isdigit() else 1
            self._done("exit" if code else "ok", code, number)

    def _done(self, status, code, number):
        self.channel.send(wire.DONE, {"status": status, "exit_code": code}, cell=number)
        self.channel.cell = 0

    def _source(self, cell):
        """Lets the shell run a cell, reads the values that were asked for, and returns the status."""
        path = self._write(cell)
        names = " ".join(name for name in cell.get("return") or () if _is_name(name))
        # What does not begin with this word was written by the cell, and not by the session's own line behind it.
        word = os.urandom(8).hex()
        tell = f"__glovebox_done \"$__glovebox_status\" {word} {names} >|{self.shell.answers} 2>/dev/null"
        line = f"BASH_ARGV0={_quote(cell['name'])}; source {_quote(path)}; __glovebox_status=$?; {tell}"
        if cell.get("last"):
            line += '; exit "$__glovebox_status"'  # the shell's own way out, with its EXIT trap
        self.shell.forget()
        self.shell.say(line)
        while True:
            said, _, rest = self.shell.until(b"\n").partition(" ")
            if said != word:
                continue
            kind, _, rest = rest.partition(" ")
            if kind == "done":
                break
            self._value(kind, *rest.rsplit(" ", 1))
        if cell.get("last"):
            self.shell.until(b"\n")  # it raises Gone
        os.unlink(path)
        return rest

    def _write(self, cell):
        """Writes the code to a file: its name is what the shell's messages say, with the line."""
        if self.files is None:
            import tempfile

            self.files = tempfile.mkdtemp(prefix="cells-")
        path = self.files + "/" + cell["name"].replace("/", "_")
        with open(path, "w", encoding="utf-8") as file:
            file.write(cell["code"] + "\n")
        return path

    def _give(self, inputs):
        """Makes variables of JSON values. Returns what is wrong with them, or nothing."""
        for name, value in inputs.items():
            if not _is_name(name):
                return f"{name!r} is no name of a shell variable: use letters, digits and underscores"
            self.shell.say(f"unset -v {name}; {_assignment(name, value)}")
        return ""

    def _value(self, kind, name, count):
        parts = [self.shell.until(b"\0") for _ in range(int(count))]
        if kind == "missing":
            self.channel.send(wire.NOTICE, {"code": "value.missing", "text": f"There is no variable {name!r} to return."})
            return
        value = parts[0] if kind == "text" else parts if kind == "list" else dict(zip(parts[::2], parts[1::2]))
        text = value if kind == "text" else "\n".join(parts)
        data = {"text/plain": text, "application/json": value}
        self.channel.send(wire.VALUE, {"name": name, "data": data, "metadata": {}})

    def _leave(self):
        """Ends as the shell has ended."""
        _, status = os.waitpid(self.shell.pid, 0)
        self.channel.flush()
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _is_name(name):
    return name != "" and not name[0].isdigit() and all(letter in NAME for letter in name)


def _quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def _assignment(name, value):
    if isinstance(value, list):
        return f"{name}=({' '.join(_quote(_text(item)) for item in value)})"
    if isinstance(value, dict):
        items = " ".join(f"[{_quote(key)}]={_quote(_text(item))}" for key, item in value.items() if key)
        return f"declare -gA {name}=({items})"
    return f"{name}={_quote(_text(value))}"


def _text(value):
    """Returns a JSON value as the text that a shell would have of it."""
    if isinstance(value, str):
        return value
    import json

    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


Session(3).serve()
