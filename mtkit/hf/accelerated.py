"""The class that a tokenizer of transformers gets: its own, with mtkit asked for ids and texts.

While one of its methods encodes or decodes, ``_tokenizer`` is mtkit's; to everybody else it is the
object of the tokenizers library, which takes no other where it is handed one (``DecodeStream``).
"""

from __future__ import annotations

import copyreg
from functools import lru_cache
from threading import local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.hf.backend import Backend


INNER, BACKEND = "_tokenizer", "_mtkit"
"""Under which a tokenizer keeps the library's object, and mtkit's."""
_calling = local()


def _backend(tokenizer: Any) -> Backend:
    """Return mtkit's object for the library's that a tokenizer has now."""
    kept = vars(tokenizer)
    backend: Backend | None = kept.get(BACKEND)
    if backend is None or backend.inner is not kept[INNER]:
        from mtkit.hf.backend import Backend

        backend = kept[BACKEND] = Backend(kept[INNER])
    return backend


class _Inner:
    """The attribute ``_tokenizer``."""

    def __get__(self, tokenizer: Any, owner: type | None = None) -> Any:
        found = None if tokenizer is None else vars(tokenizer).get(INNER)
        if found is None:
            return None
        if getattr(_calling, "tokenizer", None) is tokenizer:
            return _backend(tokenizer)
        if BACKEND in vars(tokenizer):
            vars(tokenizer)[BACKEND].is_handed_out()
        return found

    def __set__(self, tokenizer: Any, value: Any) -> None:
        vars(tokenizer)[INNER] = value


class _Calling:
    """As long as it is entered, a tokenizer calls mtkit."""

    def __init__(self, tokenizer: object) -> None:
        self._tokenizer = tokenizer

    def __enter__(self) -> None:
        self._before = getattr(_calling, "tokenizer", None)
        _calling.tokenizer = self._tokenizer

    def __exit__(self, *_: object) -> None:
        _calling.tokenizer = self._before


class Accelerated:
    """Stands in front of the class of a tokenizer."""

    __dict__: dict[str, Any]

    _tokenizer = _Inner()

    def _encode_plus(self, *args: Any, **options: Any) -> Any:
        with _Calling(self):
            return super()._encode_plus(*args, **options)  # type: ignore[misc]

    def _decode(self, *args: Any, **options: Any) -> Any:
        with _Calling(self):
            return super()._decode(*args, **options)  # type: ignore[misc]

    def __copy__(self) -> Any:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out what another process makes for itself."""
        state = {name: value for name, value in vars(self).items() if name != BACKEND}
        kind = type(self)
        base = kind.__mro__[2]
        if kind is accelerated(base):
            return _again, (base,), state
        return copyreg.__newobj__, (kind,), state  # type: ignore[attr-defined]


@lru_cache(None)
def accelerated(base: type) -> type:
    """Return the class of a tokenizer with mtkit inside; what makes new ones makes the plain."""

    def plain(cls: type, *args: Any, **options: Any) -> Any:
        return base(*args, **options) if cls is made else object.__new__(cls)

    def from_pretrained(*args: Any, **options: Any) -> Any:
        return base.from_pretrained(*args, **options)  # type: ignore[attr-defined]

    names = {name: getattr(base, name) for name in ("__module__", "__qualname__", "__doc__")}
    own = {"__new__": plain, "from_pretrained": staticmethod(from_pretrained)}
    made = type(base.__name__, (Accelerated, base), {**names, **own})
    return made


def _again(base: type) -> object:
    return object.__new__(accelerated(base))
