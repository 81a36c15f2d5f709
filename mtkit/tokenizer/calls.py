"""What a tokenizer is called for most, as functions of an engine.

Where the native core encodes, each stands behind a function of the core that takes the same
arguments and needs no frame of Python: for a short text that would take as long as encoding it.
What the core cannot answer alone (text that is the pipeline's, an error) comes here.
"""

from __future__ import annotations

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.engine import AnyEngine
    from mtkit.errors import Naming

    Function = Callable[..., Any]


class Calls:
    """The functions of one engine, which hold no tokenizer.

    Attributes:
        encode_ids: As ``Tokenizer.encode_ids``.
        encode_array: As ``Tokenizer.encode_array``.
        decode: As ``Tokenizer.decode``.
    """

    def __init__(self, engine: AnyEngine, naming: Naming) -> None:
        self.encode_ids: Callable[..., list[int]] = engine.direct_ids(
            _encoder(engine.encode_ids, naming)
        )
        self.encode_array: Callable[..., memoryview] = engine.direct_array(
            _encoder(engine.encode_array, naming)
        )
        self.decode: Callable[..., str] = engine.direct_decode(_decoder(engine))


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
    naming.name(error)


def _encoder(encode: Callable[[str | bytes, bool, bool | None], Any], naming: Naming) -> Function:
    def encoded(
        text: str | bytes, *, add_special_tokens: bool = True, parse_special: bool | None = None
    ) -> Any:
        try:
            return encode(text, add_special_tokens, parse_special)
        except Exception as error:
            explain(naming, error, text)
            raise

    encoded.__qualname__ = f"Tokenizer.{encode.__name__}"  # errors about arguments say it
    return encoded


def _decoder(engine: AnyEngine) -> Function:
    def decoded(ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        listed = ids if type(ids) is list else list(ids)
        check_ids(engine, listed)
        return engine.decode(listed, skip_special_tokens=skip_special_tokens)

    decoded.__qualname__ = "Tokenizer.decode"
    return decoded
