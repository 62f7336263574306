# SPDX-License-Identifier: Apache-2.0
"""Forks a living session: a sibling with all its variables, on a channel of its own."""

import os
import sys
import warnings

DESCRIPTORS = 3  # the sibling's channel, standard output and standard error


def fork(session):
    """Forks the session. Returns True in the sibling, and False in the session itself."""
    descriptors = _receive()
    try:
        with warnings.catch_warnings():
            # A thread of the user's does not live on in the sibling; docs/notebook.md says so.
            warnings.simplefilter("ignore")
            child = os.fork()
            if child == 0:
                _step_aside(descriptors)
    finally:
        if session.channel.is_child is False:
            for descriptor in descriptors:
                os.close(descriptor)
    if child:
        os.waitpid(child, 0)
        return False
    session.channel.take_over(3)
    _renew()
    return True


def _receive():
    """Takes the descriptors that come beside the one byte behind the message."""
    import array
    import socket

    room = socket.CMSG_LEN(DESCRIPTORS * array.array("i").itemsize)
    with socket.socket(fileno=os.dup(3)) as channel:
        _byte, ancillary, _flags, _address = channel.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    if len(descriptors) != DESCRIPTORS:
        raise OSError("the descriptors of a fork did not arrive")
    return list(descriptors)


def _step_aside(descriptors):
    """In the first child: makes the guest the parent of the second one, which becomes the sibling."""
    try:
        if os.fork():
            os._exit(0)
        os.setsid()
        channel, stdout, stderr = descriptors
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.dup2(channel, 3, inheritable=False)
        for descriptor in descriptors:
            if descriptor > 3:
                os.close(descriptor)
    except OSError:
        os._exit(1)


def _renew():
    """What two processes must not share: the states of random generators, and open files with one position."""
    from glovebox import warm

    warm.after_fork()
    manager = sys.modules.get("matplotlib.font_manager")
    if manager is not None:
        manager._get_font.cache_clear()
