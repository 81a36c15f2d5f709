"""What a tokenizer is called for most, as functions of an engine.

Where the native core encodes, each stands behind a function of the core that takes the same
arguments and needs no frame of Python: for a short text that would take as long as encoding it.
What the core cannot answer alone (text that is the pipeline's, an error) comes here.
"""

from __future__ import annotations

from _weakref import ref  # what weakref has besides would be a twentieth of the time to start

from mtkit.errors import MtkitError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from mtkit.engine import AnyEngine
    from mtkit.errors import Naming


class Calls:
    """The functions of one engine.

    Attributes:
        encode_ids: As ``Tokenizer.encode_ids``.
        encode_array: As ``Tokenizer.encode_array``.
        decode: As ``Tokenizer.decode``.
    """

    def __init__(self, tokenizer: object, engine: AnyEngine, naming: Naming) -> None:
        ids = _Encode(tokenizer, "encode_ids", engine.encode_ids, naming)
        array = _Encode(tokenizer, "encode_array", engine.encode_array, naming)
        self.encode_ids: Callable[..., list[int]] = engine.direct("encode_ids", ids)
        self.encode_array: Callable[..., memoryview] = engine.direct("encode_array", array)
        self.decode: Callable[..., str] = engine.direct(
            "decode", _Decode(tokenizer, "decode", engine)
        )


def check_ids(engine: AnyEngine, ids: Sequence[int]) -> None:
    """Raise for a number that is not an id.

    Raises:
        UsageError: It names the first.
    """
    outside = engine.first_outside(ids)
    if outside is not None:
        hint = f"the vocabulary has ids 0 to {engine.vocab_size - 1}"
        raise UsageError(f"there is no id {outside}", hint=hint)


def explain(naming: Naming, error: Exception, *texts: object) -> None:
    """Say of an error of encoding what can be said where the file is known."""
    if isinstance(error, TypeError):
        from mtkit.unicode.utf8 import check_type

        for text in texts:
            check_type(text)
        if "incompatible function arguments" in str(error):  # of the core, which names its own
            raise TypeError(
                "threads is a number from 0 on, add_special_tokens True or False, "
                "parse_special True, False or None"
            ) from None
    naming.name(error)


def explain_batch(
    naming: Naming,
    error: Exception,
    entries: Iterable[tuple[Any, ...]],
    encode: Callable[[Any], object],
) -> None:
    """Say of an error of a batch what ``explain`` says, and which text it is about.

    Args:
        naming: Of the file.
        error: What the batch raised.
        entries: The batch: a text each, or a pair.
        encode: Encodes one text, with the options of the batch.
    """
    if isinstance(error, TypeError):
        from mtkit.unicode.utf8 import is_text

        for number, entry in enumerate(entries):
            for text in entry:
                if not is_text(text):
                    what = f"texts[{number}] is {type(text).__name__}, not str or bytes"
                    raise TypeError(what) from None
    elif isinstance(error, MtkitError) and error.is_about_text:
        refused = first_refused(entries, encode)
        if refused is not None:
            error.which = f"texts[{refused}]"
    explain(naming, error)


def first_refused(
    entries: Iterable[tuple[Any, ...]], encode: Callable[[Any], object]
) -> int | None:
    """Return the index of the first entry with a text that cannot be encoded, None: all can."""
    for number, entry in enumerate(entries):
        try:
            for text in entry:
                encode(text)
        except MtkitError as error:
            if error.is_about_text:
                return number
    return None


class _Method:
    """Stands for a method of a tokenizer, and is pickled as that; it does not keep it alive."""

    def __init__(self, tokenizer: object, name: str) -> None:
        method = getattr(type(tokenizer), name)
        self.__name__, self.__qualname__ = name, method.__qualname__
        self.__doc__ = method.__doc__
        self._tokenizer = ref(tokenizer)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._tokenizer(), self.__name__)


class _Encode(_Method):
    def __init__(
        self,
        tokenizer: object,
        name: str,
        encode: Callable[[str | bytes, bool, bool | None], Any],
        naming: Naming,
    ) -> None:
        super().__init__(tokenizer, name)
        self._encode = encode
        self._naming = naming

    def __call__(
        self,
        text: str | bytes,
        *,
        add_special_tokens: bool = True,
        parse_special: bool | None = None,
    ) -> Any:
        try:
            return self._encode(text, add_special_tokens, parse_special)
        except Exception as error:
            explain(self._naming, error, text)
            raise


class _Decode(_Method):
    def __init__(self, tokenizer: object, name: str, engine: AnyEngine) -> None:
        super().__init__(tokenizer, name)
        self._engine = engine

    def __call__(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        listed = ids if type(ids) is list else list(ids)
        check_ids(self._engine, listed)
        return self._engine.decode(listed, skip_special_tokens=skip_special_tokens)
