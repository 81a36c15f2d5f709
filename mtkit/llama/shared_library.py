"""Loading llama.cpp: the package, its log, its compute devices, and its own chat templates.

The log is not printed: its last lines are kept, and warnings and errors among them become part of
the message when a call fails, since most functions report nothing else.

``Interrupts`` is for Ctrl-C during a long call into C. Python runs a signal's handler only between
its own instructions, so a call that takes a minute would have to end first, and an exception raised
inside a callback is lost. While an ``Interrupts`` is entered, the handler only sets ``is_set``,
which a callback reads to end the call; leaving it hands the signal to the handler before.

llama.cpp's own chat templates are known by name and are not Jinja.

Source: llama.h of llama.cpp (``llama_chat_apply_template``).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections import deque
from contextlib import suppress

from mtkit.base.record import Record
from mtkit.base.watch import leave
from mtkit.errors import FormatError, MissingExtra, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    Result = TypeVar("Result")


class Interrupts:
    """Holds back SIGINT in the main thread; does nothing in others.

    Attributes:
        is_set: A signal came, or another thread ends the call.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._signaled = False
        self._before: Any = None

    def _handle(self, _: int, __: object) -> None:
        self.is_set = self._signaled = True

    def __enter__(self) -> Interrupts:
        self.is_set = self._signaled = False
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        before, self._before = self._before, None
        if before is not None:
            signal.signal(signal.SIGINT, before)
        if self._signaled:
            before(signal.SIGINT, None)


def call_uninterrupted(call: Callable[..., Result], *args: object) -> Result:
    """Call into C while SIGINT waits: the call writes a log, whose callback would lose it."""
    with Interrupts():
        return call(*args)


PACKAGE = "llama-cpp-python"
_KEPT_LINES = 40
_DEBUG, _WARN, _ERROR, _CONTINUED = 1, 3, 4, 5  # ggml.h; the package has them otherwise
_ON_WINDOWS = ("ggml.dll", "ggml-base.dll")
"""Libraries beside llama.dll."""
_SHORT_CALLS = (
    "llama_vocab_is_eog", "llama_vocab_get_attr", "llama_token_to_piece",
    "llama_memory_seq_rm", "llama_memory_seq_pos_min", "llama_memory_seq_pos_max",
    "llama_model_n_swa", "llama_sampler_accept", "llama_sampler_free",
    "llama_sampler_chain_init", "llama_sampler_chain_add", "llama_sampler_init_top_k",
    "llama_sampler_init_top_p", "llama_sampler_init_min_p", "llama_sampler_init_temp",
    "llama_sampler_init_dist", "llama_sampler_init_penalties",
)  # fmt: skip
"""Functions that keep Python's lock: to get it back, a thread waits while another one computes,
0.5 ms in a server, each time."""
_modules: dict[str, Any] = {}
_abort_lock = threading.Lock()


class Log:
    """llama.cpp's log."""

    def __init__(self) -> None:
        self.is_shown = False
        self._lines: deque[tuple[int, str]] = deque(maxlen=_KEPT_LINES)
        self._level = 0

    def take(self, level: int, text: bytes | None, _: object) -> None:
        """Take a piece of the log; llama.cpp's callback."""
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
        for severity in (_ERROR, _WARN):
            lines = [" ".join(text.split()) for level, text in self._lines if level == severity]
            if lines:
                unique = list(dict.fromkeys(line for line in lines if line))
                return " / ".join(unique[-most:])
        return ""

    def reason(self, otherwise: str = "") -> str:
        """Return the last errors as the end of a message."""
        message = self.errors() or otherwise
        return f": llama.cpp says: {message}" if message else ""


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
    if not _modules:
        _load()
    if backends is not None:
        if not os.path.isdir(backends):
            raise UsageError("is not a folder with ggml backends", source=backends)
        load_from = ggml("ggml_backend_load_all_from_path", None, [ctypes.c_char_p])
        if load_from is None:
            raise UnsupportedError("this build of llama.cpp cannot load backends from a folder")
        load_from(os.fsencode(backends))
    return _modules["module"]


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
    _modules["module"] = module
    for name in _SHORT_CALLS:
        call = getattr(module, name, None)
        if call is not None:
            prototype = ctypes.PYFUNCTYPE(call.restype, *call.argtypes)
            setattr(module, name, prototype((name, module._lib)))  # noqa: SLF001
    # The package has installed a callback of its own; the object must outlive every call.
    _modules["log"] = module.llama_log_callback(log.take)
    module.llama_log_set(_modules["log"], ctypes.c_void_p(0))
    _modules["abort"] = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_abort)
    set_abort = ggml("ggml_set_abort_callback", ctypes.c_void_p, [ctypes.c_void_p])
    if set_abort is not None:
        set_abort(ctypes.cast(_modules["abort"], ctypes.c_void_p))
    load_all = ggml("ggml_backend_load_all", None, [])
    with Interrupts():  # Ctrl-C inside the log's callback would be lost
        if load_all is not None:
            load_all()
        module.llama_backend_init()


def remember_model(path: str) -> None:
    """Remember the file that llama.cpp reads, for the message where it ends the process."""
    _modules["path"] = path


def _abort(message: bytes | None) -> None:
    """End the process with one line; the callback of a failed assertion.

    ggml calls abort() when this returns, and no thread that it may be called on can be unwound: all
    that is left is to end the process with a better message.
    """
    from mtkit.base.escape import printable

    _abort_lock.acquire()  # for good: threads that compute together fail together, and one speaks
    place, _, what = (message or b"").decode("utf-8", "replace").partition(": ")
    place = place.replace("\\", "/").rpartition("/")[2]
    error = FormatError(
        f"llama.cpp gives up: {' '.join(what.split())} ({place})",
        source=_modules.get("path", ""),
        hint="the model is damaged, or llama.cpp cannot run it this way",
    )
    try:
        sys.stdout.flush()
        sys.stderr.write(f"mtkit: {printable(str(error))}\n")
        sys.stderr.flush()
    finally:
        leave(error.exit_code)


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
        if "log" in _modules:  # the package sets a log of its own
            _modules["module"].llama_log_set(_modules["log"], ctypes.c_void_p(0))
        return getattr(package, attribute)

    package.__dict__["__getattr__"] = fill
    sys.modules[name] = package
    try:
        return import_module("llama_cpp.llama_cpp")
    except BaseException:
        del sys.modules[name]
        raise


def media_library() -> Any:
    """Return the module of libmtmd's functions, loaded once."""
    from importlib import import_module

    library()
    if "media" not in _modules:
        try:
            _modules["media"] = module = import_module("llama_cpp.mtmd_cpp")
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            raise UnsupportedError(f"{PACKAGE} has no libmtmd that loads: {error}") from None
        module.mtmd_helper_log_set(_modules["log"], ctypes.c_void_p(0))
    return _modules["media"]


def media_file() -> str:
    """Return the path of libmtmd."""
    return str(media_library()._libmtmd._name)  # noqa: SLF001


def library_file() -> str:
    """Return the path of llama.cpp's shared library."""
    return str(library()._lib._name)  # noqa: SLF001  the package has no other name for it


def ggml(name: str, result: Any, arguments: list[Any]) -> Any:
    """Return a function of ggml or llama.cpp that the package does not bind, or None."""
    for handle in _open_libraries():
        with suppress(AttributeError):
            return ctypes.CFUNCTYPE(result, *arguments)((name, handle))
    return None


def _open_libraries() -> list[Any]:
    """Return the libraries in which functions are looked up.

    The handle of libllama finds those of the libraries that it depends on, except on Windows.
    """
    if "handles" not in _modules:
        library = _modules["module"]._lib  # noqa: SLF001  the package has no other name for it
        folder = os.path.dirname(library._name)  # noqa: SLF001
        paths = [os.path.join(folder, name) for name in _ON_WINDOWS]
        _modules["handles"] = [library, *map(ctypes.CDLL, filter(os.path.exists, paths))]
    handles: list[Any] = _modules["handles"]
    return handles


class Device(Record):
    """A compute device.

    Attributes:
        name: As ``--device`` takes it.
        kind: "CPU", "GPU", "integrated GPU" or "accelerator".
        free: Memory that is free, in bytes; 0 where it is not known.
        total: Its memory in bytes; 0 where it is not known.
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
    available = []
    for index in range(count()):
        handle = get(index)
        free, total = size(0), size(0)
        memory(handle, ctypes.byref(free), ctypes.byref(total))
        number = kind(handle)
        available.append(
            Device(
                (name(handle) or b"").decode("utf-8", "replace"),
                (description(handle) or b"").decode("utf-8", "replace"),
                _KINDS[number] if 0 <= number < len(_KINDS) else "other",
                free.value,
                total.value,
                handle,
            )
        )
    return available


def system_info() -> str:
    """Return llama.cpp's description of its build and of this machine."""
    text: bytes = library().llama_print_system_info()
    return text.decode("utf-8", "replace").strip()


_MESSAGE_FIELDS = ("role", "content")


def builtin_templates() -> list[str]:
    """Return the names of llama.cpp's own chat templates."""
    lib = library()
    count = lib.llama_chat_builtin_templates(None, 0)
    names = (ctypes.c_char_p * count)()
    lib.llama_chat_builtin_templates(names, count)
    return [(name or b"").decode() for name in names]


def apply_builtin_template(
    name: str, messages: Sequence[Any], *, add_generation_prompt: bool
) -> str:
    """Render messages, each with ``role`` and ``content``, by one of llama.cpp's own templates."""
    lib = library()
    chat = (lib.llama_chat_message * len(messages))()
    encoded, size = [], 0
    for place, message in enumerate(messages):
        texts = [message.get(key) if isinstance(message, dict) else None for key in _MESSAGE_FIELDS]
        if not all(isinstance(text, str) and "\0" not in text for text in texts):
            raise UsageError("is not a role and a text without NUL", field=f"messages[{place}]")
        role, content = (str(text).encode() for text in texts)
        encoded += [role, content]  # the structures only point at them
        chat[place].role, chat[place].content = role, content
        size += len(role) + len(content)
    while True:
        room = 2 * size + 4096
        buffer = ctypes.create_string_buffer(room)
        length = lib.llama_chat_apply_template(
            name.encode(), chat, len(chat), add_generation_prompt, buffer, room
        )
        if length < 0:
            raise UsageError(f"llama.cpp has no chat template {name!r}", field="--chat-template")
        if length <= room:
            return buffer.raw[:length].decode("utf-8", "replace")
        size = length
