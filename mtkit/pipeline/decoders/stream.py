"""Decoding a stream of ids: text in whole characters, as soon as it cannot change any more.

What is held back: the bytes of a character that is not complete, a run of byte tokens (where one
bad byte turns all of them into U+FFFD), the last token of a word-end decoder, spaces in front of
punctuation that does not follow yet. All that a stream gave, joined, is what decoding the whole
sequence gives.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from mtkit.pipeline.decoders import components as whole
from mtkit.pipeline.decoders import stream_bytes as byte_stages
from mtkit.pipeline.decoders import stream_text as stages
from mtkit.pipeline.normalizers.growth import check_tokens, longest, weight
from mtkit.spec import decoders as spec
from mtkit.spec.text import Text
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.pipeline.decoders.decode import Decoding
    from mtkit.pipeline.decoders.stream_text import Stage
    from mtkit.spec.decoders import Decoder


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
            self._source, self._stages = byte_stages.build(
                decoding.spec, skip_special_tokens=skip_special_tokens
            )
        elif decoder is None:
            self._stages = [stages.Joined(decoding.spec.join)]
        else:
            self._stages, _ = _stages(decoder, fused=False)
        if not decoding.by_bytes:
            self._stages += stages.literals(whole.clean_up_pairs(decoding.spec.clean_up_spaces))

    def push(self, token_id: int) -> str:
        """Take an id and return the text that is settled now, often none."""
        if self._source:
            tokens = _latin(self._source.push(token_id))
        else:
            tokens = self._decoding.tokens([token_id], skip_special_tokens=self._skip)
        self._given += weight(tokens)
        return self._utf8.decode(self._bytes(self._run(0, tokens)))

    def finish(self) -> str:
        """End the stream and return what was held back."""
        rest = self._run(0, _latin(self._source.finish())) if self._source else []
        for at, stage in enumerate(self._stages):
            rest += self._run(at + 1, stage.finish())
            check_tokens(rest, longest(self._given))
        return self._utf8.decode(self._bytes(rest), True)

    def _run(self, first: int, tokens: list[str]) -> list[str]:
        for stage in self._stages[first:]:
            tokens = [given for token in tokens for given in stage.push(token)]
            check_tokens(tokens, longest(self._given))
        return tokens

    def _bytes(self, tokens: list[str]) -> bytes:
        text = "".join(tokens)
        return text.encode("latin-1") if self._source else to_bytes(text)


def _latin(data: bytes | None) -> list[str]:
    return [] if data is None else [data.decode("latin-1")]


def _stages(decoder: Decoder, *, fused: bool) -> tuple[list[Stage], bool]:
    """Return the stages of a decoder and whether their output is one token in parts.

    Args:
        decoder: The decoder.
        fused: Whether its input is one token in parts.
    """
    if isinstance(decoder, spec.Sequence):
        found: list[Stage] = []
        for step in decoder.steps:
            added, fused = _stages(step, fused=fused)
            found += added
        return found, fused
    if isinstance(decoder, spec.Fuse):
        return [], True
    if fused:
        return _fused(decoder)
    if isinstance(decoder, spec.ByteLevel):
        return [stages.Bytes()], True
    if isinstance(decoder, spec.ByteFallback):
        return [stages.Run()], False
    if isinstance(decoder, spec.BPE):
        return [stages.Late(decoder)], False
    if isinstance(decoder, spec.CTC):
        return [stages.Different(decoder)], False
    if isinstance(decoder, spec.Metaspace):
        return [stages.Each(lambda t, first: whole.metaspace(decoder, t, first=first))], False
    if isinstance(decoder, spec.WordPiece):
        return [stages.Each(lambda t, first: whole.wordpiece(decoder, t, first=first))], False
    decode = _decode(decoder)
    return [stages.Each(lambda token, _: "".join(decode([token])))], False


def _fused(decoder: Decoder) -> tuple[list[Stage], bool]:
    """Return the same of a decoder whose input is one token in parts."""
    if isinstance(decoder, spec.Strip):
        return [stages.Ends(decoder)], True
    pairs = _literals(decoder)
    if pairs and all(old for old, _ in pairs):
        return stages.literals(pairs), True
    # CTC makes no token of nothing.
    one_token = not isinstance(decoder, spec.CTC)
    return [stages.Whole(_decode(decoder))], one_token


def _decode(decoder: Decoder) -> Callable[[list[str]], list[str]]:
    """Return the function of a decoder for tokens that stand alone."""
    decode = whole.compile_decoder(decoder, lossy=True)
    return lambda tokens: decode(tokens, longest(weight(tokens)))


def _literals(decoder: Decoder) -> list[tuple[str, str]]:
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
