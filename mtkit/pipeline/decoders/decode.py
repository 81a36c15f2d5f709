"""Ids back to text: which text a token starts from, the decoder, the clean-up at the end."""

from __future__ import annotations

from mtkit.errors import UsageError
from mtkit.pipeline.decoders import bytewise
from mtkit.pipeline.decoders import pieces as roles
from mtkit.pipeline.decoders import subwords as piece_decoder
from mtkit.pipeline.decoders.components import clean_up, clean_up_pairs, compile_decoder
from mtkit.pipeline.normalizers.growth import longest, weight
from mtkit.spec import TokenType, decoders
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mtkit.pipeline.decoders.components import Decode
    from mtkit.spec import TokenizerSpec

_BY_BYTES = (decoders.Bytewise, decoders.Pieces, decoders.Subwords, decoders.AfterBos)


class Decoding:
    """The way back of a specification.

    Attributes:
        spec: The specification.
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
        self.by_bytes = isinstance(spec.decoder, _BY_BYTES)
        self._decoders: dict[bool, Decode] = {}

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool) -> str:
        """Decode to text."""
        if self.by_bytes:
            return self._by_bytes(ids, skip_special_tokens).decode("utf-8", "replace")
        text = self._join(self.tokens(ids, skip_special_tokens=skip_special_tokens), lossy=True)
        return to_bytes(text).decode("utf-8", "replace")

    def decode_bytes(self, ids: Iterable[int], *, skip_special_tokens: bool) -> bytes:
        """Decode to bytes."""
        if self.by_bytes:
            return self._by_bytes(ids, skip_special_tokens)
        tokens = self.tokens(ids, skip_special_tokens=skip_special_tokens)
        return to_bytes(self._join(tokens, lossy=False))

    def tokens(self, ids: Iterable[int], *, skip_special_tokens: bool) -> list[str]:
        """Return the texts that the decoder starts from; ids that name no token are left out."""
        texts = []
        for token_id in ids:
            text = self.token(token_id)
            if text is not None and not (skip_special_tokens and text in self._special):
                texts.append(text)
        return texts

    def token(self, token_id: int) -> str | None:
        """Return the text that one token starts from.

        Raises:
            UsageError: The id is negative.
        """
        if token_id < 0:
            raise UsageError(f"is {token_id}, ids are not negative", field="id")
        if token_id in self._added:
            return self._added[token_id]
        vocabulary = self.spec.vocabulary
        if token_id >= len(vocabulary) or vocabulary.type_of(token_id) is TokenType.ABSENT:
            return None
        return str(vocabulary.pieces[token_id], "utf-8", "surrogateescape")

    def decoder(self, *, lossy: bool) -> Decode | None:
        """Return the function of the decoder, None where there is none."""
        if self.spec.decoder is None:
            return None
        if lossy not in self._decoders:
            self._decoders[lossy] = compile_decoder(self.spec.decoder, lossy=lossy)
        return self._decoders[lossy]

    def _join(self, tokens: list[str], *, lossy: bool) -> str:
        decode = self.decoder(lossy=lossy)
        text = (
            "".join(decode(tokens, longest(weight(tokens))))
            if decode
            else self.spec.join.join(tokens)
        )
        return clean_up(text, clean_up_pairs(self.spec.clean_up_spaces))

    def _by_bytes(self, ids: Iterable[int], skip_special_tokens: bool) -> bytes:
        if isinstance(self.spec.decoder, (decoders.Subwords, decoders.AfterBos)):
            return piece_decoder.decode(self.spec, ids, skip_special_tokens=skip_special_tokens)
        if isinstance(self.spec.decoder, decoders.Pieces):
            return roles.decode(self.spec, ids, skip_special_tokens=skip_special_tokens)
        return bytewise.decode(self.spec, ids, skip_special_tokens=skip_special_tokens)
