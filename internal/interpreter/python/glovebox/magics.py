# SPDX-License-Identifier: Apache-2.0
"""Magics, !commands and ?: IPython does them, and is loaded for them alone.

The shell is an InteractiveShell on our namespace with its history off (it would start
a thread and a database). It never runs cells: it rewrites them, and executes the
calls that the rewriting put in.
"""

import builtins
import sys

_shell = None


def transform(session, source):
    """Returns the source of a cell with magics as plain Python."""
    session.module.__dict__["get_ipython"] = lambda: _shell
    return shell(session).transform_cell(source)


def shell(session):
    """Returns the session's InteractiveShell, made at the first call."""
    global _shell
    if _shell is None:
        _shell = _make(session)
    return _shell


def current():
    """Returns the shell, or None when there is none yet."""
    return _shell


def _make(session):
    import tempfile

    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.autocall = 0
    config.InteractiveShell.ipython_dir = tempfile.mkdtemp(prefix="ipython-")
    before = sys.displayhook, sys.excepthook, sys.modules["__main__"], getattr(builtins, "display", None)
    names = session.module.__dict__
    last = {"_": names["_"]} if "_" in names else {}
    made = InteractiveShell.instance(config=config, user_module=session.module, user_ns=names)
    names.pop("_", None)  # IPython's own would hide the last value
    names.update(last)
    sys.displayhook, sys.excepthook, sys.modules["__main__"], builtins.display = before
    _adapt(session, made)
    return made


def _adapt(session, made):
    """Sends what magics run and show the way of everything else."""
    made.showtraceback = lambda *args, **options: _reraise()
    made.run_cell = lambda source, *args, **options: _run(session, source)
    made.enable_gui = lambda gui=None: None
    made.system = made.system_piped = lambda command: _system(made, command)
    lines = made.magics_manager.magics["line"]
    config = lines["config"]
    lines["pip"] = lines["conda"] = lines["uv"] = _pip
    lines["matplotlib"] = lambda line="": _matplotlib(session, line)
    lines["config"] = lambda line="": _config(config, line)


def _reraise():
    raise


def _run(session, source):
    session.runner.run({"code": source, "name": "<run_cell>"})


def _system(made, command):
    """Runs a shell command; its output comes as ours does, in order with what is printed.

    A command that ends in & keeps our descriptors and is left alone. Others are over when the shell is, even if
    something that it started still holds the pipe.
    """
    import subprocess

    command = made.var_expand(command, depth=2)
    apart = command.rstrip().endswith("&")
    process = subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=None if apart else subprocess.PIPE,
        stderr=None if apart else subprocess.STDOUT,
    )
    try:
        if not apart:
            _copy(process)
    finally:
        if not apart:
            process.kill()  # after an interrupt; otherwise it has ended
        process.wait()
    made.user_ns["_exit_code"] = process.returncode


def _copy(process):
    """Passes a process's output on until the pipe is closed, or until the process is over and the pipe empty."""
    import os
    import select

    pipe = process.stdout.fileno()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while True:
        over = process.poll() is not None  # asked first: what it wrote before its end is then in the pipe
        if poll.poll(0 if over else 100):
            part = os.read(pipe, 1 << 16)
            if not part:
                return
            sys.stdout.buffer.write(part)
        elif over:
            return


def _pip(line=""):
    """Says why nothing can be installed from here."""
    print(
        f"%pip {line}: the sandbox has no network, so nothing can be installed from inside. "
        "Use what the image has, or upload a module as a file.",
        file=sys.stderr,
    )


def _matplotlib(session, line):
    """Charts are always captured; any backend asked for is replaced."""
    from glovebox.charts import settings

    name = line.strip().split(" ")[0]
    settings.refuse(session, name) if name and not name.startswith("-") else None
    __import__("matplotlib.pyplot")


def _config(plain, line):
    """%config InlineBackend.figure_format = 'svg' chooses the format here too."""
    import ast

    name, _, value = line.partition("=")
    if name.strip() in ("InlineBackend.figure_format", "InlineBackend.figure_formats"):
        from glovebox.charts import settings

        wanted = ast.literal_eval(value.strip())
        settings.set_formats(*([wanted] if isinstance(wanted, str) else sorted(wanted)))
    elif not name.strip().startswith("InlineBackend."):
        plain(line)
