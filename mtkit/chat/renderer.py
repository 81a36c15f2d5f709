"""Running a chat template: the process in which Jinja renders it, seen from inside.

It reads requests from standard input and answers each on standard output:

    request   u64 length, u64 memory; marshal of (template, variables, now, seconds, characters)
    answer    kind, u64 bytes of text, u32 spans; the text as UTF-8; two u64 a span

The parent is trusted: a request may hold whatever marshal knows. An answer is as plain as it can
be: a template that found its way out of the sandbox could write anything there. It would find
itself in a process without environment or files, which can open none, starts no other, and ends at
its limits of time and memory.
"""

from __future__ import annotations

import marshal
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from jinja2 import Template

    from mtkit.chat.sandbox import Sandbox

    Spans = list[tuple[int, int]]


try:
    import resource
except ImportError:  # Windows: there is only the limit of time that the parent holds
    resource = None  # type: ignore[assignment]


ASK = struct.Struct("<QQ")
HEAD = struct.Struct("<cQI")
SPAN = struct.Struct("<QQ")
READY = b"+"
"""The first byte that is written: everything is imported."""
MOST_SPANS = 100_000
ROOM_TO_ANSWER = 16 << 20
"""Bytes beyond the limit for what is written of a rendering that has all but reached it."""
MOST_WORDS = 4096
"""Characters of an error's text."""

DONE = b"d"
REFUSED = b"r"
"""``raise_exception`` in the template."""
FAILED = b"f"
SYNTAX = b"s"
UNSAFE = b"u"
EXHAUSTED = b"e"
"""Memory, depth or length; the process ends after this answer."""
KINDS = frozenset((DONE, REFUSED, FAILED, SYNTAX, UNSAFE, EXHAUSTED))


def serve() -> None:
    """Answer requests until there are no more."""
    from functools import lru_cache

    _import_everything()
    from mtkit.chat.sandbox import Sandbox

    _close_doors()
    sandbox = Sandbox()
    compiled = lru_cache(maxsize=1)(sandbox.from_string)
    _write(READY)
    kind = DONE
    while kind != EXHAUSTED and (head := _read(ASK.size)):
        length, memory = ASK.unpack(head)
        _limit("RLIMIT_AS", memory)
        kind, text, spans = _answer(sandbox, compiled, memory, _read(length))
        _limit("RLIMIT_AS", memory + ROOM_TO_ANSWER)
        _write(HEAD.pack(kind, len(text), len(spans)))
        _write(text)
        _write(b"".join(SPAN.pack(*span) for span in spans))


def _answer(
    sandbox: Sandbox, compiled: Callable[[str], Template], memory: int, request: bytes
) -> tuple[bytes, bytes, Spans]:
    """Return kind, text as UTF-8 and spans; the text of a failure is its message."""
    from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError

    from mtkit.chat.sandbox import Output, TooLong

    template: Template | None = None
    try:
        text, variables, now, seconds, characters = marshal.loads(request)  # noqa: S302  of the parent
        _limit_processor(seconds)
        output = Output(_time(*now), characters, MOST_SPANS)
        template = compiled(text)
        sandbox.render_into(output, template, variables)
        return DONE, "".join(output.blocks).encode("utf-8", "surrogatepass"), output.spans
    except TooLong as error:
        kind, words = EXHAUSTED, str(error)
    except TemplateSyntaxError as error:
        kind, words = SYNTAX, f"{error.message} (line {error.lineno})"
    except SecurityError as error:
        kind, words = UNSAFE, str(error)
    except MemoryError:
        kind, words = EXHAUSTED, f"needs more than {memory >> 20} MiB of memory"
    except (RecursionError, OverflowError) as error:
        kind, words = EXHAUSTED, f"fails: {type(error).__name__}: {error}"
    except TemplateError as error:
        kind, words = (REFUSED if type(error) is TemplateError else FAILED), str(error.message)
    except Exception as error:  # noqa: BLE001  a template can raise what Python can
        kind, words = FAILED, f"the chat template fails: {type(error).__name__}: {error}"
        if template is None:
            kind, words = SYNTAX, f"is not a template: {type(error).__name__}: {error}"
    return kind, words[:MOST_WORDS].encode("utf-8", "surrogatepass"), []


def _time(fields: tuple[int, ...], offset: float | None, name: str | None) -> datetime:
    """Return the time that ``ask_process`` took apart."""
    from datetime import datetime, timedelta, timezone

    moment = datetime(*fields)  # type: ignore[arg-type]
    if offset is None:
        return moment
    shift = timedelta(seconds=offset)
    return moment.replace(tzinfo=timezone(shift) if name is None else timezone(shift, name))


def _import_everything() -> None:
    """Import what jinja2 and Python import only when they need it: no file opens later."""
    import codecs
    import html  # noqa: F401
    import pprint  # noqa: F401
    import textwrap  # noqa: F401
    import unicodedata  # noqa: F401

    import jinja2.constants
    import jinja2.debug  # noqa: F401

    for name in ("ascii", "latin-1", "utf-16", "utf-32", "unicode_escape", "raw_unicode_escape"):
        codecs.lookup(name)


def _close_doors() -> None:
    """Give up, for good, what rendering does not need: further files, writing them, processes."""
    for name, most in (
        ("RLIMIT_NOFILE", 3),
        ("RLIMIT_FSIZE", 0),
        ("RLIMIT_NPROC", 0),
        ("RLIMIT_CORE", 0),
    ):
        _limit(name, most, for_good=True)


def _limit_processor(seconds: float) -> None:
    """Hold the time where there is no parent any more to do it."""
    if resource is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit("RLIMIT_CPU", int(used.ru_utime + used.ru_stime + seconds) + 2)


def _limit(name: str, most: int, *, for_good: bool = False) -> None:
    """Set a limit where the system has it; macOS takes none on memory."""
    if resource is None or not hasattr(resource, name):
        return
    kind = getattr(resource, name)
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    try:
        resource.setrlimit(kind, (most, most if for_good else hard))
    except (OSError, ValueError):
        return


def _read(size: int) -> bytes:
    """Read so many bytes; none where the parent has gone."""
    parts = []
    while size:
        part = os.read(0, min(size, 1 << 20))
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]
