"""The process that serves: loads the model, and ends in order."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec

from mtkit.errors import ResourceError, UsageError
from mtkit.serve.access import keys_of, names_of
from mtkit.serve.opening import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtkit.serve.guard import Guard
    from mtkit.serve.served import Served
    from mtkit.settings import ServeSettings

_SWITCH = 0.0005
"""Seconds that what computes waits for Python's lock at most. Python's own 5 ms are what a small
model takes for a token, and loading one asks for the lock some hundred times."""

for _name in ("uvicorn", "starlette", "msgspec", "prometheus_client"):  # imported later
    if find_spec(_name) is None:
        raise ModuleNotFoundError(f"No module named {_name!r}", name=_name)


@contextmanager
def _mounted(
    settings: ServeSettings,
    template: str | None = None,
    on_progress: Callable[[float], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Iterator[tuple[Guard, Served]]:
    """Load a model, and give the application that answers with what it shares."""
    keys = keys_of(settings)
    names_of(settings)  # before the model is loaded
    folder = settings.slot_save_path
    if folder is not None and not os.path.isdir(folder):
        raise UsageError("is not a folder", source=folder, field="--slot-save-path")
    web = threading.Thread(target=_import_web)
    web.start()
    with opened(settings, on_progress) as (runner, scheduler):
        web.join()
        from mtkit.serve.app import application
        from mtkit.serve.served import Served

        served = Served(runner, scheduler, settings, template, on_note)
        scheduler.start()
        yield application(served, keys), served


def _import_web() -> None:
    """Import what answers while the model is loaded: it takes as long as a small one."""
    with suppress(ImportError):  # who needs it imports it again, and says so
        for name in ("numpy", "mtkit.serve.app", "mtkit.serve.server"):
            import_module(name)


def asgi(settings: ServeSettings, *, template: str | None = None) -> Guard:
    """Load a model, and return the ASGI application for a server of somebody else's.

    The model stays loaded as long as the process runs. Who listens for other machines without a key
    has to keep them away otherwise; ``allow_host`` names what the server is called.

    Args:
        settings: Which model, and how; where to listen is the server's business.
        template: A chat template instead of the model's own.

    Raises:
        ResourceError: The model does not fit the memory.
    """
    kept = ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(_mounted(settings, template))[0]


def serve(
    settings: ServeSettings,
    *,
    template: str | None = None,
    on_progress: Callable[[float], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    listening: Callable[[str, Served], None],
) -> None:
    """Serve a model until a signal ends it.

    Args:
        settings: Which model, and how.
        template: A chat template instead of the model's own.
        on_progress: Called with the part that is loaded, 0 to 1.
        on_note: Called with what the user should know, in any thread.
        listening: Called with the address once requests are taken.

    Raises:
        UsageError: The address cannot be listened on, or needs a key.
        ResourceError: The model does not fit the memory.
    """
    sys.setswitchinterval(_SWITCH)
    with ExitStack() as stack:
        app, served = stack.enter_context(_mounted(settings, template, on_progress, on_note))
        gc.freeze()  # what is there now lives as long as the process
        from mtkit.serve.listening import bound
        from mtkit.serve.server import listen

        sockets = [stack.enter_context(one) for one in bound(settings)]
        server = listen(app, served, sockets, lambda address: listening(address, served))
    for timer in server.timers:
        timer.cancel()
    if not server.started:
        raise ResourceError("the server did not start")
