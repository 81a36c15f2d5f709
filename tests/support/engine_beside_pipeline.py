"""The native engine beside its pipeline: the same answers, and the engine's own.

The engine hands a text over to the pipeline where the core defers it, and an engine that always did
so would pass every comparison. ``Both`` counts what was handed over, less the errors (which are the
pipeline's to raise) and what is not valid UTF-8, and bounds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_cases import answer

from mtkit.engine import Engine, load_engine
from mtkit.pipeline import Pipeline

if TYPE_CHECKING:
    from types import TracebackType

    from mtkit.spec import TokenizerSpec

HANDED_OVER = 0.02
"""Part of the sound texts and ids that the core may leave to the pipeline."""


class Both:
    """An engine and its pipeline; used as a context, at whose end the count is checked."""

    def __init__(self, spec: TokenizerSpec, handed_over: float = HANDED_OVER) -> None:
        engine = load_engine(spec)
        assert isinstance(engine, Engine)
        self.engine = engine
        self.pipeline = Pipeline(spec)
        self._most = handed_over
        self._asked = 0
        self._deferred: list[Any] = []

    def same(self, method: str, *args: Any, **options: Any) -> Any:
        """Ask both, assert that they answer alike, and return the answer."""
        expected = answer(getattr(self.pipeline, method), *args, **options)
        before = self.engine.deferred
        got = answer(getattr(self.engine, method), *args, **options)
        assert got == expected, (method, args, options)
        is_error = isinstance(expected, tuple)
        if not is_error and all(map(_is_sound, args)):
            self._asked += 1
            if self.engine.deferred > before:
                self._deferred.append((method, args, options))
        return expected

    def __enter__(self) -> Both:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if kind is None:
            most = self._most * self._asked
            assert len(self._deferred) <= most, (self._asked, self._deferred[:5])


def _is_sound(argument: object) -> bool:
    """Tell whether an argument is a text that is valid UTF-8, or ids that could be some."""
    if isinstance(argument, list):
        return all(0 <= token_id < 2**32 - 1 for token_id in argument)
    try:
        if isinstance(argument, str):
            argument.encode()
        elif isinstance(argument, bytes):
            argument.decode()
    except UnicodeError:
        return False
    return True
