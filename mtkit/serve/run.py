"""The process that serves: loads the first model, answers, ends in order.

What answers over HTTP (starlette, uvicorn, msgspec) is imported by a thread of its own while the
model is loaded, so nothing here imports it at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
import time
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from mtkit.base import watch
from mtkit.base.process import return_memory
from mtkit.base.record import replace
from mtkit.errors import ResourceError, UsageError, format_count
from mtkit.memory_plan.plan import available_memory
from mtkit.serve.access import keys_of, names_of
from mtkit.serve.addresses import bind_sockets
from mtkit.serve.job import deadly
from mtkit.serve.load import open_scheduler, settings_of_models

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from mtkit.serve.guard import Guard
    from mtkit.serve.pool import ModelPool
    from mtkit.settings import LoadSettings, ServeSettings


_MOST_DEATHS, _CALM_SECONDS = 5, 60.0
"""Deaths in so many seconds after which the server is not started again."""
_MOST_UNREAD = 1 << 20
"""Bytes of a request that are passed over where the process that read it has died."""
_SWITCH_SECONDS = 0.0005
"""Seconds that the scheduler waits for Python's lock at most. Python's own 5 ms are what a small
model takes for a token, and loading one asks for the lock some hundred times."""

for _name in ("uvicorn", "starlette", "msgspec", "prometheus_client"):  # imported later
    if find_spec(_name) is None:
        raise ModuleNotFoundError(f"No module named {_name!r}", name=_name)


@contextmanager
def _open_app(
    settings: ServeSettings,
    template: str | None = None,
    on_progress: Callable[[float], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Iterator[tuple[Guard, ModelPool]]:
    """Load the first model, and yield the application with all of them."""
    keys = keys_of(settings)
    names_of(settings)  # before the model is loaded
    for name in ("slot_save_path", "media_path"):
        folder = getattr(settings, name)
        if folder is not None and not os.path.isdir(folder):
            option = f"--{name.replace('_', '-')}"
            raise UsageError("is not a folder", source=folder, field=option)
    web = threading.Thread(target=_import_web)
    web.start()
    memory = available_memory()
    with ExitStack() as stack:
        model = stack.enter_context(ExitStack())
        first = settings_of_models(settings)[0]
        runner, scheduler = model.enter_context(open_scheduler(first, on_progress))
        web.join()
        from mtkit.serve.app import application
        from mtkit.serve.pool import ModelPool

        pool = ModelPool(settings, template, on_note, memory)
        stack.callback(pool.close)
        pool.first.adopt(pool, model, runner, scheduler)
        yield application(pool, keys), pool


def _import_web() -> None:
    """Import the web server while the model is loaded: it takes as long as a small one."""
    with suppress(ImportError):  # the next import of it reports that
        for name in ("numpy", "mtkit.serve.app", "mtkit.serve.server"):
            import_module(name)


def asgi(settings: ServeSettings, *, template: str | None = None) -> Guard:
    """Load the first model, and return the ASGI application for another server.

    Models are unloaded at the end of the process at the latest. A server that other machines can
    reach needs a key or another protection; ``allow_host`` takes its names.
    """
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(_open_app(settings, template))[0]


def serve(
    settings: ServeSettings,
    *,
    template: str | None = None,
    on_progress: Callable[[float], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    on_death: Callable[[str], None] | None = None,
    listening: Callable[[str, ModelPool], None],
) -> None:
    """Serve models until a signal.

    Args:
        on_progress: Called with the part that is loaded, 0 to 1.
        on_death: Called where llama.cpp has ended the process that served: a new one takes its
            place. Connections that come meanwhile wait; requests that had no answer yet get
            status 503, other connections are closed. None: it serves in this process.
    """

    def run(sockets: list[socket.socket], load: LoadSettings) -> None:
        changed = replace(settings, load=load)
        _serve(changed, sockets, template, on_progress, on_note, listening)

    with ExitStack() as stack:
        try:
            sockets = [stack.enter_context(bound) for bound in bind_sockets(settings)]
        except UsageError:  # a mistake in the settings is said before an address that is taken
            with _open_app(settings, template, on_progress, on_note):
                raise
        if on_death is None or not watch.can_watch():
            run(sockets, settings.load)
            return
        load, deaths = settings.load, deque([-_CALM_SECONDS] * _MOST_DEATHS, _MOST_DEATHS)
        works: set[int] = set()
        while True:
            try:
                watch.run_watched(partial(run, sockets, load), restarts=True)
            except watch.Death as death:
                _answer_held(death)
                deaths.append(time.monotonic())
                if deaths[-1] - deaths[0] < _CALM_SECONDS or not death.has_started:
                    hint = "another build of llama-cpp-python may help"
                    raise ResourceError(str(death), hint=hint) from None
                load = replace(load, repack=False)
                what = "the server starts again without repacking (--no-repack)"
                if again := works & death.works:
                    count = format_count(len(again), "request")
                    what += f", and refuses {count} that llama.cpp computed both times"
                deadly.update(again)
                works |= death.works
                on_death(f"{death}; {what}")
            else:
                return  # the child


def _answer_held(death: watch.Death) -> None:
    """Tell the clients that still wait for an answer to ask again."""
    if not death.connections:
        return
    import socket

    from mtkit.serve.reply import Problem, error_response

    what = "llama.cpp ended the process that computes; it is starting again, so try again"
    problem = Problem(503, what, headers={"retry-after": "1", "connection": "close"})
    for number, path in death.connections:
        answer = error_response(path, problem)
        lines = [b"HTTP/1.1 503 Service Unavailable"]
        lines += [b"%s: %s" % header for header in answer.raw_headers]
        with suppress(OSError), socket.socket(fileno=number) as connection:
            connection.setblocking(False)
            connection.sendall(b"\r\n".join([*lines, b"", bytes(answer.body)]))
            connection.shutdown(socket.SHUT_WR)
            connection.recv(_MOST_UNREAD)  # what is not read would make the close a reset


def _serve(
    settings: ServeSettings,
    sockets: list[socket.socket],
    template: str | None,
    on_progress: Callable[[float], None] | None,
    on_note: Callable[[str], None] | None,
    listening: Callable[[str, ModelPool], None],
) -> None:
    sys.setswitchinterval(_SWITCH_SECONDS)
    return_memory()
    with ExitStack() as stack:
        app, pool = stack.enter_context(_open_app(settings, template, on_progress, on_note))
        gc.freeze()  # what is there now lives as long as the process
        from mtkit.serve.request import grammars, long_texts
        from mtkit.serve.server import listen

        server = listen(app, pool, sockets, lambda address: listening(address, pool))
        grammars.close()
        long_texts.close()
    for timer in server.timers:
        timer.cancel()
    if not server.started:
        raise ResourceError("the server did not start")
