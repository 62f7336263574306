# SPDX-License-Identifier: Apache-2.0
"""Tells what the code tried that a sandbox refuses, does not have, or answers with something made up.

It listens to Python's own audit events, so it is the program's claim and no wall: the kernel refuses what it refuses
whether this sees it or not. It sees what Python opens and connects to, and the command lines of programs that Python
starts. What C code and those programs do is not seen: so the C library's look-up of a user's name is never told.

Python raises an event for more than what is listened for, id() among it, and each costs 0.1 microseconds. So the way of
an event that is of no interest is as short as can be, and a closer look is bounded for each cell.
"""

import os
import sys

from glovebox import OWN as __builtins__
from glovebox import limits

REFUSED = "access.refused"
ABSENT = "access.absent"
SYNTHETIC = "access.synthetic"

# A path is looked at closely when it has one of these in it. The table is compiled at that moment: re takes its time.
_MARKS = (
    "passwd", "shadow", "group", "sudoers", "/proc/", "/.ssh", "/.aws", "/.kube", "/.docker", "/.gnupg", "/gcloud",
    ".sock", "/secrets/", "kmem", "/dev/mem",
)  # fmt: skip
_ACCOUNTS = r"/etc/(?:passwd|group)"
_FILES = {
    r"/etc/(?:g?shadow-?|passwd-|group-|sudoers(?:\.d/.+)?|security/opasswd)": "the passwords of a system",
    r"/proc/1/.+": "the sandbox's first process",
    r"/proc/(?:kcore|kallsyms|kmsg|sysrq-trigger)|/dev/(?:mem|kmem|port)": "the kernel's memory and controls",
    r"(?:/root|/home/[^/]+)/\.(?:ssh|aws|kube|docker|gnupg|config/gcloud)(?:/.+)?": "a user's keys",
    r"(?:/var)?/run/(?:docker|podman/podman|crio/crio|containerd/containerd)\.sock": "the control socket of containers",
    r"(?:/var)?/run/secrets/.+": "the secrets of a container",
}
_METADATA = frozenset((
    "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254",
    "metadata.google.internal", "metadata",
))  # fmt: skip

_session = None  # who is told; None in a zygote
_listening = False
_told = set()
_looks = 0


def listen():
    """Starts to listen; for good, since Python has no way back."""
    global _listening
    if not _listening:
        _listening = True
        sys.addaudithook(_hook)


def tell(session):
    """Names the session that is told."""
    global _session
    _session = session
    listen()


def new_cell():
    """Forgets what the last cell was told of."""
    global _looks
    _looks = 0
    _told.clear()


def _hook(event, arguments):
    if event in _EVENTS:
        try:
            _EVENTS[event](arguments)
        except Exception as error:  # nothing of ours may end what the code does; the handler of a signal may
            if _session is not None and error is _session.channel.from_signal:
                raise


def _path(arguments):
    """An open, a listing or a link: the path, or what the link names, is the first argument."""
    path = arguments[0]
    if type(path) is int or path is None:
        return
    if type(path) is not str:
        path = os.fsdecode(path)
    if len(path) <= limits.MAX_AUDIT_TEXT and any(mark in path for mark in _MARKS):
        flags = arguments[2] if len(arguments) > 2 else 0
        _judge("the code asked for", path, making=type(flags) is int and flags & os.O_CREAT)


def _judge(tried, path, making=False):
    if not _may_look():
        return
    import re

    # Through links, "..", the working folder and /proc/self/root; what does not exist stays as it is written.
    path = os.path.realpath(path)

    if re.fullmatch(_ACCOUNTS, path):
        what = "the accounts of a system"
    else:
        what = next((what for pattern, what in _FILES.items() if re.fullmatch(pattern, path)), None)
    if what is None:
        return
    try:
        os.stat(path)
        readable = os.access(path, os.R_OK)
    except FileNotFoundError:
        if making and os.access(os.path.dirname(path), os.W_OK):
            return  # a file of the code's own
        _say(ABSENT, path, f"{tried} {path} ({what}): there is no such thing here")
        return
    except OSError:
        readable = False
    if not readable:
        _say(REFUSED, path, f"{tried} {path} ({what}): this sandbox refuses it")
    elif re.fullmatch(_ACCOUNTS, path):
        _say(SYNTHETIC, path, f"{tried} {path} ({what}): it is synthetic, and names the sandbox's own users alone")
    # Anything else that can be read is the code's own: a key that it made itself, say.


def _popen(arguments):
    program, line = arguments[0], arguments[1]
    _command([line] if isinstance(line, (str, bytes)) else [program or "", *line])


def _system(arguments):
    _command([arguments[0]])


def _exec(arguments):
    _command(arguments[1])


def _command(words):
    """A program that Python starts: the table's paths are looked for in its command line."""
    line = " ".join(os.fsdecode(word) for word in words)[: limits.MAX_AUDIT_TEXT]
    for address in _METADATA:
        if "." in address and address in line:
            _host(address)
    if not any(mark in line for mark in _MARKS) or not _may_look():
        return
    import re

    line = re.sub(r"/proc/[\w-]+/(?:root|cwd)(?=/)", "", line)
    for pattern in (_ACCOUNTS, *_FILES):
        found = re.search(rf"(?<![\w.])(?:{pattern})(?![\w.-])".replace(".+", r"[\w./-]+"), line)
        if found:
            _judge("the code started a program whose command line names", found[0])


def _address(arguments):
    """connect() and sendto(): the address is the second argument, a pair, a longer tuple, or the path of a socket."""
    address = arguments[1]
    if type(address) is tuple:
        _host(address[0])
    else:
        _path((address,))


def _name(arguments):
    """The look-up of a host's name."""
    _host(arguments[0])


def _host(host):
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if host in _METADATA:
        _say(REFUSED, host, f"the code tried to reach {host} (a cloud's metadata service): there is no network here")


def _may_look():
    global _looks
    _looks += 1
    return _session is not None and _looks <= limits.MAX_AUDIT_LOOKS


def _say(code, key, text):
    if _session is None or key in _told or len(_told) >= limits.MAX_AUDIT_NOTICES:
        return
    _told.add(key)  # first: telling flushes streams, which may be the user's own
    _session.notice(code, text)


_EVENTS = {
    "open": _path, "os.listdir": _path, "os.scandir": _path, "os.symlink": _path, "os.link": _path,
    "subprocess.Popen": _popen, "os.system": _system, "os.exec": _exec, "os.posix_spawn": _exec,
    "socket.connect": _address, "socket.sendto": _address, "socket.getaddrinfo": _name, "socket.gethostbyname": _name,
}  # fmt: skip
