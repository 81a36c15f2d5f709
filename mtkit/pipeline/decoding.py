"""Ids back to text, all at once or as a stream.

``Decoding`` knows which text a token starts from, the decoder, and the clean-up at the end.
``DecodeStream`` takes ids one by one and gives text in whole characters, as soon as it cannot
change any more. What is held back: the bytes of a character that is not complete, a run of byte
tokens (where one bad byte turns all of them into U+FFFD), the last token of a word-end decoder,
spaces in front of punctuation that does not follow yet. A whole sequence goes through the same
stages, each run to its end.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from mtkit.errors import UsageError
from mtkit.pipeline.byte_decoders import BY_BYTES, Source, byte_stages
from mtkit.pipeline.decoders import (
    EachToken,
    clean_up_pairs,
    decoder_stages,
    literal_stages,
    run_stages,
)
from mtkit.pipeline.growth import check_tokens, decoded_limit, token_weight
from mtkit.spec import TokenType
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mtkit.pipeline.decoders import Stage
    from mtkit.spec import TokenizerSpec


class Decoding:
    """The way back of a specification.

    Attributes:
        by_bytes: Whether the decoder works on bytes from the start.
    """

    def __init__(self, spec: TokenizerSpec, added_texts: Mapping[int, str]) -> None:
        """Read the decoder; ``added_texts`` says what added tokens are found by."""
        self.spec = spec
        self._added = added_texts
        self._special = {
            token.content.decode("utf-8", "surrogateescape")
            for token in spec.added_tokens.tokens
            if token.special
        }
        self.by_bytes = isinstance(spec.decoder, BY_BYTES)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool) -> str:
        """Decode to text."""
        return self._decode(ids, skip_special_tokens, lossy=True).decode("utf-8", "replace")

    def decode_bytes(self, ids: Iterable[int], *, skip_special_tokens: bool) -> bytes:
        """Decode to bytes."""
        return self._decode(ids, skip_special_tokens, lossy=False)

    def _decode(self, ids: Iterable[int], skip: bool, *, lossy: bool) -> bytes:
        source, stages = self.stages(skip_special_tokens=skip, lossy=lossy)
        tokens = [token for token_id in ids for token in source.push(token_id)] + source.finish()
        return self.join(run_stages(stages, tokens, decoded_limit(token_weight(tokens))))

    def stages(self, *, skip_special_tokens: bool, lossy: bool) -> tuple[Source, list[Stage]]:
        """Return what gives the tokens of ids, and the stages behind it."""
        spec = self.spec
        if self.by_bytes:
            return byte_stages(spec, skip_special_tokens=skip_special_tokens)
        if spec.decoder is None:
            stages: list[Stage] = [
                EachToken(lambda token, first: token if first else spec.join + token)
            ]
        else:
            stages, _ = decoder_stages(spec.decoder, lossy=lossy)
        stages += literal_stages(clean_up_pairs(spec.clean_up_spaces))
        return _TextSource(self, skip_special_tokens), stages

    def join(self, tokens: Iterable[str]) -> bytes:
        """Return the bytes of the tokens that the last stage gave."""
        text = "".join(tokens)
        return text.encode("latin-1") if self.by_bytes else to_bytes(text)

    def tokens(self, ids: Iterable[int], *, skip_special_tokens: bool) -> list[str]:
        """Return the texts that the decoder starts from; ids that name no token are left out."""
        texts = []
        for token_id in ids:
            text = self.token(token_id)
            if text is not None and not (skip_special_tokens and text in self._special):
                texts.append(text)
        return texts

    def token(self, token_id: int) -> str | None:
        """Return the text that one token starts from."""
        if token_id < 0:
            raise UsageError(f"is {token_id}, ids are not negative", field="id")
        if token_id in self._added:
            return self._added[token_id]
        vocabulary = self.spec.vocabulary
        if token_id >= len(vocabulary) or vocabulary.type_of(token_id) is TokenType.ABSENT:
            return None
        return str(vocabulary.pieces[token_id], "utf-8", "surrogateescape")


class _TextSource(Source):
    """The texts that ids are found by."""

    def __init__(self, decoding: Decoding, skip: bool) -> None:
        self._decoding = decoding
        self._skip = skip

    def push(self, token_id: int) -> list[str]:
        """Take an id."""
        return self._decoding.tokens([token_id], skip_special_tokens=self._skip)


class DecodeStream:
    """Takes ids, gives text.

    Inside, tokens are text with escaped bytes; where the decoder works on bytes from the start,
    they are bytes written as Latin-1.
    """

    def __init__(self, decoding: Decoding, *, skip_special_tokens: bool) -> None:
        self._decoding = decoding
        self._utf8 = getincrementaldecoder("utf-8")("replace")
        self._weight = 0
        self._source, self._stages = decoding.stages(
            skip_special_tokens=skip_special_tokens, lossy=True
        )

    def push(self, token_id: int) -> str:
        """Take an id and return the text that is settled now, often none."""
        tokens = self._source.push(token_id)
        self._weight += token_weight(tokens)
        return self._utf8.decode(self._decoding.join(self._run(0, tokens)))

    def finish(self) -> str:
        """End the stream and return what was held back."""
        rest = self._run(0, self._source.finish())
        for at, stage in enumerate(self._stages):
            stage.limit = decoded_limit(self._weight)
            rest += self._run(at + 1, stage.finish())
            check_tokens(rest, decoded_limit(self._weight))
        return self._utf8.decode(self._decoding.join(rest), True)

    def _run(self, first: int, tokens: list[str]) -> list[str]:
        limit = decoded_limit(self._weight)
        for stage in self._stages[first:]:
            stage.limit = limit
            tokens = [settled for token in tokens for settled in stage.push(token)]
            check_tokens(tokens, limit)
        return tokens
