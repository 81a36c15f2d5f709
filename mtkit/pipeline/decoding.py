"""Ids back to text, all at once or as a stream.

``Decoding`` knows which text a token starts from, the decoder, and the clean-up at the end.
``DecodeStream`` takes ids one by one and gives text in whole characters, as soon as it cannot
change any more. What is held back: the bytes of a character that is not complete, a run of byte
tokens (where one bad byte turns all of them into U+FFFD), the last token of a word-end decoder,
spaces in front of punctuation that does not follow yet. All that a stream gave, joined, is what
decoding the whole sequence gives.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from mtkit.errors import UsageError
from mtkit.pipeline import byte_decoders
from mtkit.pipeline import byte_decoders as piece_decoder
from mtkit.pipeline import byte_decoders as roles
from mtkit.pipeline import decoders as whole
from mtkit.pipeline import stream_stages as byte_stages
from mtkit.pipeline import stream_stages as stages
from mtkit.pipeline.decoders import clean_up, clean_up_pairs, compile_decoder
from mtkit.pipeline.growth import check_tokens, decoded_limit, token_weight
from mtkit.spec import TokenType, decoders
from mtkit.spec import decoders as spec
from mtkit.spec.text import Text
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mtkit.pipeline.decoders import Decode
    from mtkit.pipeline.stream_stages import Stage
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.decoders import Decoder


_BY_BYTES = (decoders.Bytewise, decoders.Pieces, decoders.Subwords, decoders.AfterBos)


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
        """Return the text that one token starts from."""
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
            "".join(decode(tokens, decoded_limit(token_weight(tokens))))
            if decode
            else self.spec.join.join(tokens)
        )
        return clean_up(text, clean_up_pairs(self.spec.clean_up_spaces))

    def _by_bytes(self, ids: Iterable[int], skip_special_tokens: bool) -> bytes:
        if isinstance(self.spec.decoder, (decoders.Subwords, decoders.AfterBos)):
            return piece_decoder.decode_subwords(
                self.spec, ids, skip_special_tokens=skip_special_tokens
            )
        if isinstance(self.spec.decoder, decoders.Pieces):
            return roles.decode_pieces(self.spec, ids, skip_special_tokens=skip_special_tokens)
        return byte_decoders.decode_bytewise(
            self.spec, ids, skip_special_tokens=skip_special_tokens
        )


class DecodeStream:
    """Takes ids, gives text.

    Inside, tokens are text with escaped bytes; where the decoder works on bytes from the start,
    they are bytes written as Latin-1.
    """

    def __init__(self, decoding: Decoding, *, skip_special_tokens: bool) -> None:
        """Begin a stream."""
        self._decoding = decoding
        self._skip = skip_special_tokens
        self._utf8 = getincrementaldecoder("utf-8")("replace")
        self._given = 0
        decoder = decoding.spec.decoder
        self._source = None
        self._stages: list[Stage]
        if decoding.by_bytes:
            self._source, self._stages = byte_stages.build_byte_stream(
                decoding.spec, skip_special_tokens=skip_special_tokens
            )
        elif decoder is None:
            self._stages = [stages.Separator(decoding.spec.join)]
        else:
            self._stages, _ = _decoder_stages(decoder, fused=False)
        if not decoding.by_bytes:
            self._stages += stages.literal_stages(
                whole.clean_up_pairs(decoding.spec.clean_up_spaces)
            )

    def push(self, token_id: int) -> str:
        """Take an id and return the text that is settled now, often none."""
        if self._source:
            tokens = _latin_tokens(self._source.push(token_id))
        else:
            tokens = self._decoding.tokens([token_id], skip_special_tokens=self._skip)
        self._given += token_weight(tokens)
        return self._utf8.decode(self._bytes(self._run(0, tokens)))

    def finish(self) -> str:
        """End the stream and return what was held back."""
        rest = self._run(0, _latin_tokens(self._source.finish())) if self._source else []
        for at, stage in enumerate(self._stages):
            rest += self._run(at + 1, stage.finish())
            check_tokens(rest, decoded_limit(self._given))
        return self._utf8.decode(self._bytes(rest), True)

    def _run(self, first: int, tokens: list[str]) -> list[str]:
        for stage in self._stages[first:]:
            tokens = [given for token in tokens for given in stage.push(token)]
            check_tokens(tokens, decoded_limit(self._given))
        return tokens

    def _bytes(self, tokens: list[str]) -> bytes:
        text = "".join(tokens)
        return text.encode("latin-1") if self._source else to_bytes(text)


def _latin_tokens(data: bytes | None) -> list[str]:
    return [] if data is None else [data.decode("latin-1")]


def _decoder_stages(decoder: Decoder, *, fused: bool) -> tuple[list[Stage], bool]:
    """Return the stages of a decoder and whether their output is one token in parts."""
    if isinstance(decoder, spec.Sequence):
        found: list[Stage] = []
        for step in decoder.steps:
            added, fused = _decoder_stages(step, fused=fused)
            found += added
        return found, fused
    if isinstance(decoder, spec.Fuse):
        return [], True
    if fused:
        return _fused_stages(decoder)
    if isinstance(decoder, spec.ByteLevel):
        return [stages.ByteLetters()], True
    if isinstance(decoder, spec.ByteFallback):
        return [stages.ByteRuns()], False
    if isinstance(decoder, spec.BPE):
        return [stages.WordEnds(decoder)], False
    if isinstance(decoder, spec.CTC):
        return [stages.RepeatFilter(decoder)], False
    if isinstance(decoder, spec.Metaspace):
        return [stages.EachToken(lambda t, first: whole.metaspace(decoder, t, first=first))], False
    if isinstance(decoder, spec.WordPiece):
        return [stages.EachToken(lambda t, first: whole.wordpiece(decoder, t, first=first))], False
    decode = _single_token_decoder(decoder)
    return [stages.EachToken(lambda token, _: "".join(decode([token])))], False


def _fused_stages(decoder: Decoder) -> tuple[list[Stage], bool]:
    """Return the same of a decoder whose input is one token in parts."""
    if isinstance(decoder, spec.Strip):
        return [stages.EndStrip(decoder)], True
    pairs = _literal_pairs(decoder)
    if pairs and all(old for old, _ in pairs):
        return stages.literal_stages(pairs), True
    # CTC makes no token of nothing.
    one_token = not isinstance(decoder, spec.CTC)
    return [stages.WholeText(_single_token_decoder(decoder))], one_token


def _single_token_decoder(decoder: Decoder) -> Callable[[list[str]], list[str]]:
    """Return the function of a decoder for tokens that stand alone."""
    decode = whole.compile_decoder(decoder, lossy=True)
    return lambda tokens: decode(tokens, decoded_limit(token_weight(tokens)))


def _literal_pairs(decoder: Decoder) -> list[tuple[str, str]]:
    """Return what a decoder replaces in a token that is the only one, if it does only that."""
    if isinstance(decoder, spec.Replace) and isinstance(decoder.pattern, Text):
        return [(decoder.pattern.text, decoder.content)]
    if isinstance(decoder, spec.Metaspace):
        return [(decoder.replacement, " " if decoder.prepend_scheme == "never" else "")]
    if isinstance(decoder, spec.BPE):
        return [(decoder.suffix, "")]
    if isinstance(decoder, spec.WordPiece) and decoder.cleanup:
        return list(whole.CLEAN_UPS)
    return []
