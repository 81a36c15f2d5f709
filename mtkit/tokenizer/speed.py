"""How fast a tokenizer is on this machine: loading, encoding new and known text, decoding."""

from __future__ import annotations

import os
import time
from functools import partial

from mtkit.base.record import Record
from mtkit.errors import UsageError, system_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    from mtkit.tokenizer.tokenizer import Tokenizer

    _Made = TypeVar("_Made")

_MODULES = ("argparse", "ast", "calendar", "datetime", "decimal", "difflib", "inspect", "pickle",
            "tarfile", "turtle", "typing", "uuid", "zipfile")  # fmt: skip
_MOST_BYTES = 1 << 31


class TextSpeed(Record):
    """What one text takes: seconds of CPU time, the median of the rounds.

    Attributes:
        decode: Decoding all of its ids.
    """

    name: str
    n_bytes: int
    n_ids: int
    fresh: float
    again: float
    decode: float


def measure(
    load: Callable[[], Tokenizer],
    texts: Mapping[str, str],
    rounds: int,
    on_progress: Callable[[float], object],
) -> tuple[float, list[TextSpeed]]:
    """Return the seconds that loading takes, ids of a word included, and the speed on each text.

    A tokenizer is loaded anew for each text and round: its caches start empty.
    """
    from statistics import median

    _ready(load)  # so that no import is measured
    loads: list[float] = []
    times: dict[str, list[tuple[float, float, float]]] = {name: [] for name in texts}
    sizes: dict[str, int] = {}
    for number in range(rounds):
        for at, (name, text) in enumerate(texts.items()):
            on_progress((number + at / len(texts)) / rounds)
            seconds, tokenizer = _timed(partial(_ready, load))
            loads.append(seconds)
            encode = partial(tokenizer.encode_array, text, add_special_tokens=False)
            (fresh, ids), (again, _) = _timed(encode), _timed(encode)
            decode, _ = _timed(partial(tokenizer.decode, ids, skip_special_tokens=False))
            times[name].append((fresh, again, decode))
            sizes[name] = len(ids)
    on_progress(1)
    return median(loads), [
        TextSpeed(
            name, len(text.encode()), sizes[name], *map(median, zip(*times[name], strict=True))
        )
        for name, text in texts.items()
    ]


def _ready(load: Callable[[], Tokenizer]) -> Tokenizer:
    """Load, and use once what is made only when it is used."""
    tokenizer = load()
    tokenizer.decode(tokenizer.encode_array("Hello", add_special_tokens=False))
    return tokenizer


def _timed(run: Callable[[], _Made]) -> tuple[float, _Made]:
    start = time.process_time()
    value = run()
    return time.process_time() - start, value


def texts_of(paths: Sequence[str], size: int) -> dict[str, str]:
    """Return the beginning of each file, "-" for a pipe, by its name, in whole characters.

    Without paths: English and code that come with Python.
    """
    from codecs import getincrementaldecoder

    from mtkit.base.binary import open_input, standard_input

    size = min(size, _MOST_BYTES)
    texts: dict[str, str] = {}
    for path in paths:
        try:
            with standard_input() if path == "-" else open_input(path) as file:
                data = file.read(size)
            whole = getincrementaldecoder("utf-8")().decode(data, len(data) < size)
        except OSError as error:
            raise UsageError(system_message(error), source=path) from None
        except UnicodeDecodeError as error:
            what = "is not valid UTF-8"
            raise UsageError(what, source=path, offset=error.start, field="text") from None
        if not whole:
            raise UsageError("is empty", source=path)
        name = "stdin" if path == "-" else os.path.splitext(os.path.basename(path))[0]
        texts[path if name in texts else name] = whole
    return texts or _of_python(size)


def _of_python(size: int) -> dict[str, str]:
    from importlib.util import find_spec

    code = ""
    for name in _MODULES:
        spec = find_spec(name)
        if spec is not None and spec.origin and spec.origin.endswith(".py") and len(code) < size:
            with open(spec.origin, encoding="utf-8") as file:
                code += file.read()
    texts = {"code": code[:size]}
    if find_spec("pydoc_data") is not None:
        from pydoc_data.topics import topics

        texts = {"english": "\n".join(topics.values())[:size], **texts}
    return {name: text for name, text in texts.items() if text}
