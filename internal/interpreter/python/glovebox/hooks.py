# SPDX-License-Identifier: Apache-2.0
"""What is changed in other people's modules, at the moment user code imports them.

Nothing here imports a module by itself. A hook runs right after its module did; when
the module is there already (a zygote imported it), it runs at once.
"""

import sys

from glovebox import channel as wire

_session = None


def install(session):
    """Starts to watch imports for the modules in HOOKS."""
    global _session
    _session = session
    sys.meta_path.insert(0, _Finder)
    for name in HOOKS:
        if name in sys.modules:
            HOOKS[name](sys.modules[name])


class _Finder:
    """A finder that finds nothing itself: it only adds our step to the loaders of some modules."""

    busy = set()  # a finder like this one may ask us in turn

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in HOOKS or name in _Finder.busy:
            return None
        _Finder.busy.add(name)
        try:
            spec = _find(name, path, target)
        finally:
            _Finder.busy.discard(name)
        if spec is not None and spec.loader is not None:
            _extend(spec.loader, HOOKS[name], around=AROUND.get(name))
        return spec


def _find(name, path, target):
    for finder in list(sys.meta_path):
        if finder is not _Finder and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def _extend(loader, hook, around):
    plain = loader.exec_module

    def exec_module(module):
        if around is None:
            plain(module)
        else:
            around(lambda: plain(module))
        hook(module)

    loader.exec_module = exec_module


# Small hooks; the large ones live beside what they serve.


def _linecache(_module):
    _session.runner.publish_sources()


def _signal_handlers(module):
    """Keeps the user's own handlers, which may raise, out of the middle of a frame that is being sent."""
    plain_set, plain_get = module.signal, module.getsignal

    def guarded(handler):
        def run(number, frame):
            _session.on_signal(handler, number, frame)

        run._glovebox_handler = handler
        return run

    def original(handler):
        # Ours stands for Python's own, which asyncio for one looks for.
        ours = getattr(handler, "__func__", None) is type(_session).on_interrupt
        return module.default_int_handler if ours else getattr(handler, "_glovebox_handler", handler)

    def signal(signalnum, handler):
        if handler is module.default_int_handler:
            return original(plain_set(signalnum, _session.on_interrupt))
        return original(plain_set(signalnum, guarded(handler) if callable(handler) else handler))

    def getsignal(signalnum):
        return original(plain_get(signalnum))

    signal.__doc__, getsignal.__doc__ = plain_set.__doc__, plain_get.__doc__
    module.signal, module.getsignal = signal, getsignal


def _threading(module):
    """Gives a thread the cell of the code that started it."""
    plain = module._start_joinable_thread

    def start(function, **options):
        cell = wire.owner.get(_session.channel.cell)

        def run():
            wire.owner.set(cell)
            function()

        return plain(run, **options)

    module._start_joinable_thread = start


def _thread_pool(module):
    """Gives the work of a thread pool the cell that submitted it: pools outlive cells."""
    plain_init, plain_run = module._WorkItem.__init__, module._WorkItem.run

    def init(self, *args, **options):
        plain_init(self, *args, **options)
        self._glovebox_cell = wire.owner.get(_session.channel.cell)

    def run(self):
        wire.owner.set(self._glovebox_cell)
        plain_run(self)

    module._WorkItem.__init__, module._WorkItem.run = init, run


def _socket(module):
    """Names the reason when a name cannot be resolved because there is no network at all."""
    plain = module.getaddrinfo

    def getaddrinfo(*args, **options):
        try:
            return plain(*args, **options)
        except module.gaierror as error:
            if error.errno == module.EAI_AGAIN and not has_network():
                error.args = (error.errno, f"{error.strerror} ({NO_NETWORK})")
                error.strerror = error.args[1]
            raise

    getaddrinfo.__doc__ = plain.__doc__
    module.getaddrinfo = getaddrinfo


NO_NETWORK = "there is no network here: the policy of this sandbox allows none"


def has_network():
    """Tells whether there is any interface besides the sandbox's own."""
    try:
        with open("/proc/self/net/dev") as file:
            return any(not line.lstrip().startswith("lo:") for line in file if ":" in line)
    except OSError:
        return False


def _spawn(module):
    """A cell is no file: a spawned child must not look for it."""
    import os

    plain = module.get_preparation_data

    def get_preparation_data(*args, **options):
        data = plain(*args, **options)
        if not os.path.exists(data.get("init_main_from_path", "/")):
            del data["init_main_from_path"]
        return data

    module.get_preparation_data = get_preparation_data


def _runners(module):
    """Lets asyncio.run() work inside a cell that awaits, by setting the outer loop aside meanwhile."""
    from asyncio import events

    plain = module.run

    def run(main, *, debug=None, loop_factory=None):
        outer = events._get_running_loop()
        if outer is None:
            return plain(main, debug=debug, loop_factory=loop_factory)
        events._set_running_loop(None)
        try:
            return plain(main, debug=debug, loop_factory=loop_factory)
        finally:
            events.set_event_loop(outer)
            events._set_running_loop(outer)

    run.__doc__ = plain.__doc__
    module.run = run
    if "asyncio" in sys.modules:  # it was imported before us, and has a copy
        sys.modules["asyncio"].run = run


def _matplotlib(module):
    from glovebox.charts import settings

    settings.patch_matplotlib(_session, module)


def _pyplot(module):
    from glovebox.charts import figures

    figures.patch_pyplot(_session, module)


def _away_from_cwd(run):
    """Runs an import from another folder: matplotlib obeys a ./matplotlibrc, which may be an upload."""
    import os

    try:
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return run()
    saved = os.environ.pop("MATPLOTLIBRC", None)
    try:
        os.chdir("/")
        run()
    finally:
        os.fchdir(here)
        os.close(here)
        if saved is not None:
            os.environ["MATPLOTLIBRC"] = saved


def _libraries(patch):
    def hook(module):
        from glovebox import libraries

        getattr(libraries, patch)(_session, module)

    return hook


HOOKS = {
    "linecache": _linecache,
    "signal": _signal_handlers,
    "socket": _socket,
    "threading": _threading,
    "concurrent.futures.thread": _thread_pool,
    "multiprocessing.spawn": _spawn,
    "joblib.externals.loky.backend.spawn": _spawn,
    "asyncio.runners": _runners,
    "matplotlib": _matplotlib,
    "matplotlib.pyplot": _pyplot,
    "PIL.Image": _libraries("patch_pillow"),
    "plotly.io._renderers": _libraries("patch_plotly_io"),
    "plotly.basedatatypes": _libraries("patch_plotly"),
    "altair.vegalite.v6.api": _libraries("patch_altair"),
    "altair.vegalite.v5.api": _libraries("patch_altair"),
    "bokeh.io.showing": _libraries("patch_bokeh_show"),
    "bokeh.io.output": _libraries("patch_bokeh_output"),
    "IPython.core.getipython": _libraries("patch_getipython"),
    "IPython.core.display_functions": _libraries("patch_ipython_display"),
}
AROUND = {"matplotlib": _away_from_cwd}
