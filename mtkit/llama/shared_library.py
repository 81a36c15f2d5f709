"""Loading llama.cpp: the package, its log, its compute devices.

The log is kept quiet: the last lines are remembered, and warnings and errors among them become part
of the message when a call fails, for most functions say nothing else.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections import deque
from contextlib import suppress

from mtkit.base.record import Record
from mtkit.errors import FormatError, MissingExtra, UnsupportedError, UsageError
from mtkit.llama.interrupts import Interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PACKAGE = "llama-cpp-python"
_KEPT_LINES = 40
_DEBUG, _WARN, _ERROR, _CONTINUED = 1, 3, 4, 5  # ggml.h; the package has them otherwise
_ON_WINDOWS = ("ggml.dll", "ggml-base.dll")
"""Beside llama.dll."""
_loaded: dict[str, Any] = {}
_ending = threading.Lock()


class Log:
    """llama.cpp's log.

    Attributes:
        is_shown: Write every line to stderr as it comes.
    """

    def __init__(self) -> None:
        self.is_shown = False
        self._lines: deque[tuple[int, str]] = deque(maxlen=_KEPT_LINES)
        self._level = 0

    def take(self, level: int, text: bytes | None, _: object) -> None:
        """Take a piece of the log; the callback of llama.cpp."""
        line = (text or b"").decode("utf-8", "replace")
        if level != _CONTINUED:
            self._level = level
        if self._level == _DEBUG:
            return
        if self.is_shown:
            from mtkit.base.escape import printable

            sys.stderr.write("\n".join(map(printable, line.split("\n"))))
        if level == _CONTINUED and self._lines:
            before = self._lines.pop()
            self._lines.append((before[0], before[1] + line))
        else:
            self._lines.append((level, line))

    def clear(self) -> None:
        """Forget the lines, before a call whose errors are of interest."""
        self._lines.clear()

    def errors(self, most: int = 3) -> str:
        """Return the last errors, or warnings where there is none, on one line."""
        for wanted in (_ERROR, _WARN):
            found = [" ".join(text.split()) for level, text in self._lines if level == wanted]
            if found:
                unique = list(dict.fromkeys(line for line in found if line))
                return " / ".join(unique[-most:])
        return ""

    def reason(self, otherwise: str = "") -> str:
        """Return what llama.cpp said, as the end of a message."""
        said = self.errors() or otherwise
        return f": llama.cpp says: {said}" if said else ""


log = Log()


def library(*, backends: str | None = None) -> Any:
    """Return the module of low-level functions; loads it and the compute back ends once.

    Args:
        backends: Folder to load back ends from as well. The file that ``GGML_BACKEND_PATH`` names
            is loaded by llama.cpp itself.

    Raises:
        MissingExtra: llama-cpp-python is not installed.
        UnsupportedError: It is there and does not load.
    """
    if not _loaded:
        _load()
    if backends is not None:
        if not os.path.isdir(backends):
            raise UsageError("is not a folder with ggml backends", source=backends)
        load_from = ggml("ggml_backend_load_all_from_path", None, [ctypes.c_char_p])
        if load_from is None:
            raise UnsupportedError("this build of llama.cpp cannot load backends from a folder")
        load_from(os.fsencode(backends))
    return _loaded["module"]


def _load() -> None:
    # Without this llama.cpp starts a debugger, for seconds, when it aborts.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    try:
        module = _low_level()
    except ImportError as error:
        if getattr(error, "name", None) not in ("llama_cpp", "llama_cpp.llama_cpp"):
            raise MissingExtra(f"{PACKAGE} cannot be loaded: {error}") from None
        raise MissingExtra(
            f"{PACKAGE} is not installed",
            hint="pip install 'mtkit[generate]' builds it in a few minutes",
        ) from None
    except (OSError, RuntimeError, AttributeError) as error:
        raise UnsupportedError(f"{PACKAGE} does not load: {error}") from None
    _loaded["module"] = module
    # The package has installed a callback of its own; the object must outlive every call.
    _loaded["log"] = module.llama_log_callback(log.take)
    module.llama_log_set(_loaded["log"], ctypes.c_void_p(0))
    _loaded["abort"] = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_abort)
    set_abort = ggml("ggml_set_abort_callback", ctypes.c_void_p, [ctypes.c_void_p])
    if set_abort is not None:
        set_abort(ctypes.cast(_loaded["abort"], ctypes.c_void_p))
    load_all = ggml("ggml_backend_load_all", None, [])
    with Interrupts():  # Ctrl-C inside the log's callback would be lost
        if load_all is not None:
            load_all()
        module.llama_backend_init()


def running(path: str) -> None:
    """Remember the model that llama.cpp is given, for the message where it ends the process."""
    _loaded["path"] = path


def _abort(message: bytes | None) -> None:
    """End the process with one line; the callback of a failed assertion.

    ggml calls abort() when this returns, and nothing can be unwound from any thread that it is
    called on: leaving is all that can be done better.
    """
    from mtkit.base.escape import printable

    _ending.acquire()  # for good: threads that compute together fail together, and one speaks
    place, _, what = (message or b"").decode("utf-8", "replace").partition(": ")
    place = place.replace("\\", "/").rpartition("/")[2]
    error = FormatError(
        f"llama.cpp gives up: {' '.join(what.split())} ({place})",
        source=_loaded.get("path", ""),
        hint="the model is damaged, or llama.cpp cannot run it this way",
    )
    try:
        sys.stdout.flush()
        sys.stderr.write(f"mtkit: {printable(str(error))}\n")
        sys.stderr.flush()
    finally:
        os._exit(error.exit_code)


def _low_level() -> Any:
    """Import the module of low-level functions without what stands above it.

    The package's ``__init__`` imports jinja2, a cache and a server's types, 120 ms of CPU for
    nothing here; it runs when somebody asks the package for one of its names.
    """
    from importlib import import_module
    from importlib.util import find_spec, module_from_spec

    name = "llama_cpp"
    if name in sys.modules:
        return import_module("llama_cpp.llama_cpp")
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package, loader = module_from_spec(spec), spec.loader

    def fill(attribute: str) -> Any:
        if attribute == "__path__":
            raise AttributeError(attribute)
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        if "log" in _loaded:  # the package sets a log of its own
            _loaded["module"].llama_log_set(_loaded["log"], ctypes.c_void_p(0))
        return getattr(package, attribute)

    package.__dict__["__getattr__"] = fill
    sys.modules[name] = package
    try:
        return import_module("llama_cpp.llama_cpp")
    except BaseException:
        del sys.modules[name]
        raise


def library_file() -> str:
    """Return the path of llama.cpp's shared library."""
    return str(library()._lib._name)  # noqa: SLF001  the package has no other name for it


def ggml(name: str, result: Any, arguments: list[Any]) -> Any:
    """Return a function of ggml or llama.cpp that the package does not bind, or None."""
    for handle in _handles():
        with suppress(AttributeError):
            return ctypes.CFUNCTYPE(result, *arguments)((name, handle))
    return None


def _handles() -> list[Any]:
    """Return the libraries in which functions are looked for.

    The handle of libllama finds those of the libraries that it depends on, but on Windows.
    """
    if "handles" not in _loaded:
        library = _loaded["module"]._lib  # noqa: SLF001  the package has no other name for it
        folder = os.path.dirname(library._name)  # noqa: SLF001
        paths = [os.path.join(folder, name) for name in _ON_WINDOWS]
        _loaded["handles"] = [library, *map(ctypes.CDLL, filter(os.path.exists, paths))]
    found: list[Any] = _loaded["handles"]
    return found


class Device(Record):
    """A compute device.

    Attributes:
        name: As ``--device`` takes it.
        description: What it is.
        kind: "CPU", "GPU", "integrated GPU" or "accelerator".
        free: Memory that is free, in bytes; 0 where it is not known.
        total: Its memory in bytes; 0 where it is not known.
        handle: llama.cpp's pointer.
    """

    name: str
    description: str
    kind: str
    free: int
    total: int
    handle: int


_KINDS = ("CPU", "GPU", "integrated GPU", "accelerator")


def devices() -> list[Device]:
    """Return the compute devices that the loaded back ends offer."""
    library()
    size, pointer, text = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
    count = ggml("ggml_backend_dev_count", size, [])
    get = ggml("ggml_backend_dev_get", pointer, [size])
    name = ggml("ggml_backend_dev_name", text, [pointer])
    description = ggml("ggml_backend_dev_description", text, [pointer])
    kind = ggml("ggml_backend_dev_type", ctypes.c_int, [pointer])
    memory = ggml(
        "ggml_backend_dev_memory", None, [pointer, ctypes.POINTER(size), ctypes.POINTER(size)]
    )
    if None in (count, get, name, description, kind, memory):
        return []
    found = []
    for index in range(count()):
        handle = get(index)
        free, total = size(0), size(0)
        memory(handle, ctypes.byref(free), ctypes.byref(total))
        number = kind(handle)
        found.append(
            Device(
                (name(handle) or b"").decode("utf-8", "replace"),
                (description(handle) or b"").decode("utf-8", "replace"),
                _KINDS[number] if 0 <= number < len(_KINDS) else "other",
                free.value,
                total.value,
                handle,
            )
        )
    return found


def system_info() -> str:
    """Return what llama.cpp says of its build and of this machine."""
    said: bytes = library().llama_print_system_info()
    return said.decode("utf-8", "replace").strip()
