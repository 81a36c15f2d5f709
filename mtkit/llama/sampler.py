"""Samplers and grammars of llama.cpp.

A grammar that does not parse, a sampler without candidates and a token that a grammar does not
take would each end the process; here the first is an error and the others do not happen.
"""

from __future__ import annotations

import ctypes
import weakref

from mtkit.base.closing import Closing
from mtkit.errors import UsageError
from mtkit.llama.gbnf import MOST_REPEATS
from mtkit.llama.schema import grammar_of
from mtkit.llama.shared_library import library, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.llama.context import Context
    from mtkit.llama.model import Model

_MOST_GRAMMAR_BYTES = 1 << 20
_DEEPEST_GRAMMAR = 200
"""Parentheses within each other; llama.cpp's parser and matcher are recursive."""


class Chain(Closing):
    """A chain of samplers; close it, or use it in ``with``."""

    def __init__(self) -> None:
        self._library = lib = library()
        params = lib.llama_sampler_chain_default_params()
        params.no_perf = True
        self.handle = lib.llama_sampler_chain_init(params)
        self._finalizer = weakref.finalize(self, lib.llama_sampler_free, self.handle)
        self._candidates: _Candidates | None = None

    def add(self, name: str, *arguments: Any) -> None:
        """Add the sampler ``llama_sampler_init_NAME``; the chain owns it.

        Raises:
            UsageError: llama.cpp does not make it.
        """
        log.clear()
        made = getattr(self._library, f"llama_sampler_init_{name}")(*arguments)
        if not made:  # a NULL pointer object is not None, and kills the process in a chain
            raise UsageError(f"the sampler {name} cannot be made{log.reason()}")
        self._library.llama_sampler_chain_add(self.handle, made)

    def sample(self, context: Context, row: int = -1) -> int:
        """Choose a token from a row of logits and remember it.

        Raises:
            UsageError: There are no logits there, or one of the two is closed.
        """
        if not self._finalizer.alive:
            raise UsageError("the sampler is closed")
        context.logits(row)  # llama.cpp ends the process where there are none
        token: int = self._library.llama_sampler_sample(self.handle, context.handle, row)
        return token

    def choose(self, logits: Any) -> int:
        """Choose a token from logits of shape (n_vocab,) without remembering it."""
        if self._candidates is None:
            self._candidates = _Candidates(len(logits), self._library)
        self._candidates.fill(logits)
        return self._candidates.apply(self.handle)

    def cut(self, logits: Any) -> tuple[Any, Any]:
        """Return what is left of logits, of a chain that chooses none itself.

        Returns:
            Places, int32 of shape (n,), in any order, and their logits, float32; copies.
        """
        if self._candidates is None or len(self._candidates.rows) != len(logits):
            self._candidates = _Candidates(len(logits), self._library)
        self._candidates.fill(logits)
        self._candidates.apply(self.handle)
        return self._candidates.left()

    def accept(self, token_id: int) -> None:
        """Remember a token, for penalties."""
        self._library.llama_sampler_accept(self.handle, token_id)

    def reset(self) -> None:
        """Forget the tokens and begin the random numbers anew."""
        self._library.llama_sampler_reset(self.handle)

    def close(self) -> None:
        """Free it."""
        self._finalizer()


class _Candidates:
    """llama.cpp's array of (id, logit, probability), with numpy views of its columns."""

    def __init__(self, size: int, lib: Any) -> None:
        import numpy as np

        self._library = lib
        layout = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        self._ids = np.arange(size, dtype=np.int32)
        self.rows = np.zeros(size, layout)
        self._data = ctypes.cast(self.rows.ctypes.data, ctypes.POINTER(lib.llama_token_data))
        self._array = lib.llama_token_data_array()

    def fill(self, logits: Any) -> None:
        self.rows["id"] = self._ids[: len(self.rows)]
        self.rows["logit"] = logits
        self._begin(len(self.rows))

    def set_one(self, token_id: int) -> None:
        self.rows[0] = token_id, 0.0, 0.0
        self._begin(1)

    def _begin(self, size: int) -> None:
        self._array.data = self._data  # XTC moves it past what it removes
        self._array.size = size
        self._array.selected = -1
        self._array.sorted = False

    def apply(self, handle: Any) -> int:
        self._library.llama_sampler_apply(handle, ctypes.byref(self._array))
        selected = self._array.selected
        return int(self._array.data[selected].id) if selected >= 0 else -1

    def left(self) -> tuple[Any, Any]:
        at = ctypes.addressof(self._array.data.contents) - self.rows.ctypes.data
        first = at // self.rows.itemsize
        rows = self.rows[first : first + self._array.size]
        return rows["id"].copy(), rows["logit"].copy()


class Grammar(Closing):
    """A grammar in GBNF that tokens have to follow; close it, or use it in ``with``."""

    def __init__(self, model: Model, text: str, root: str = "root") -> None:
        """Parse a grammar.

        Raises:
            UsageError: It does not parse.
        """
        self._library = lib = library()
        check_grammar(text, root)
        raw = text.encode("utf-8", "surrogateescape")
        log.clear()
        with _Stderr() as said:
            handle = lib.llama_sampler_init_grammar(model.vocab, raw, root.encode())
        if not handle:
            first = next((line for line in said.text.splitlines() if line.strip()), "")
            reason = f": {first}" if first else log.reason()
            raise UsageError(
                f"does not parse{reason}", field="grammar", hint=f"its first rule is {root} ::= …"
            )
        self.handle = handle
        self._finalizer = weakref.finalize(self, lib.llama_sampler_free, handle)
        self._one = _Candidates(1, lib)
        self._all = _Candidates(model.n_vocab, lib)

    def allows(self, token_id: int) -> bool:
        """Whether a token can come next."""
        self._one.set_one(token_id)
        self._one.apply(self.handle)
        return bool(self._one.rows["logit"][0] > float("-inf"))

    def mask(self, logits: Any) -> bool:
        """Set the logits of tokens that cannot come next to minus infinity, in place.

        Returns:
            Whether any token can.
        """
        self._all.fill(logits)
        self._all.apply(self.handle)
        logits[:] = self._all.rows["logit"]
        return bool(logits.max() > float("-inf"))

    def accept(self, token_id: int) -> None:
        """Go on after a token that ``allows`` has taken."""
        self._library.llama_sampler_accept(self.handle, token_id)

    def reset(self) -> None:
        """Begin anew."""
        self._library.llama_sampler_reset(self.handle)

    def close(self) -> None:
        """Free it."""
        self._finalizer()


def check_grammar(text: str, root: str = "root") -> None:
    """Refuse what llama.cpp hangs, overflows the stack or fills the memory on.

    Raises:
        UsageError: It does.
    """
    import re

    from mtkit.llama.grammar_work import check_work

    raw = text.encode("utf-8", "surrogateescape")
    if not raw.strip():
        raise UsageError("is empty", field="grammar")
    if len(raw) > _MOST_GRAMMAR_BYTES:
        raise UsageError(f"has {len(raw)} bytes, most are {_MOST_GRAMMAR_BYTES}", field="grammar")
    if b"\0" in raw:
        raise UsageError("holds a NUL byte", field="grammar")
    tokens = re.compile(
        rb'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|#[^\n]*|[()]|\{\s*(\d*)\s*(,?)\s*(\d*)\s*\}',
        re.DOTALL,
    )
    depth = 0
    for found in tokens.finditer(raw):
        part = found[0]
        if part == b"(":
            depth += 1
            if depth > _DEEPEST_GRAMMAR:
                raise UsageError(
                    f"has more than {_DEEPEST_GRAMMAR} parentheses in each other", field="grammar"
                )
        elif part == b")":
            depth = max(depth - 1, 0)
        elif part[:1] == b"{":
            low, high = found[1] or b"0", found[3] or b"0"
            most = max(len(low), len(high))
            if most > 9 or max(int(low), int(high)) > MOST_REPEATS:
                raise UsageError(f"repeats more than {MOST_REPEATS} times", field="grammar")
            if found[2] and found[3] and int(high) < int(low):
                raise UsageError(f"repeats {part.decode()} times", field="grammar")
    check_work(text, root)


def schema_grammar(schema: str) -> str:
    """Return the grammar of a JSON schema.

    Raises:
        UsageError: It is not a schema that can be turned into a grammar.
        UnsupportedError: The grammar would leave a part of it out.
    """
    import json

    def constant(name: str) -> None:
        raise UsageError(f"{name} is not JSON", field="JSON schema")

    try:
        read = json.loads(schema, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        what = (
            "is nested too deeply" if isinstance(error, RecursionError) else f"is not JSON: {error}"
        )
        raise UsageError(what, field="JSON schema") from None
    return grammar_of(read)


class _Stderr:
    """Catches what C code writes to stderr: the grammar's parser writes there and nowhere else.

    Attributes:
        text: What was written, once left.
    """

    def __init__(self) -> None:
        self.text = ""

    def __enter__(self) -> _Stderr:
        import os
        import sys
        import tempfile

        sys.stderr.flush()
        self._file = tempfile.TemporaryFile()
        self._kept = os.dup(2)
        os.dup2(self._file.fileno(), 2)
        return self

    def __exit__(self, *_: object) -> None:
        import os

        os.dup2(self._kept, 2)
        os.close(self._kept)
        self._file.seek(0)
        self.text = self._file.read().decode("utf-8", "replace")
        self._file.close()
