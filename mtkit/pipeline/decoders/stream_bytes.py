"""Streams of the decoders that work on bytes from the start; bytes are written as Latin-1.

Each source takes ids and gives the bytes that they settle; the stages behind it work on those.
"""

from __future__ import annotations

from mtkit.pipeline.decoders import bytewise
from mtkit.pipeline.decoders import pieces as roles
from mtkit.pipeline.decoders import stream_text as stages
from mtkit.pipeline.decoders import subwords as piece_decoder
from mtkit.pipeline.decoders.components import clean_up_pairs
from mtkit.spec import decoders as spec
from mtkit.spec.text import Text
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from mtkit.pipeline.decoders.stream_text import Stage
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.decoders import Decoder

    class Source(Protocol):
        """The first step: ids to bytes."""

        def push(self, token_id: int) -> bytes | None:
            """Take an id and return what is settled; None: no token."""

        def finish(self) -> bytes | None:
            """Return what was held back."""


def build(tokenizer: TokenizerSpec, *, skip_special_tokens: bool) -> tuple[Source, list[Stage]]:
    """Return the stream of a decoder that works on bytes."""
    decoder = tokenizer.decoder
    if isinstance(decoder, (spec.Subwords, spec.AfterBos)):
        source = piece_decoder.begin(tokenizer, skip_special_tokens=skip_special_tokens)
        return source, _denormalizer(decoder)
    if isinstance(decoder, spec.Pieces):
        pairs = clean_up_pairs(tokenizer.clean_up_spaces)
        return _Pieces(tokenizer, decoder, skip_special_tokens), stages.literals(pairs)
    assert isinstance(decoder, spec.Bytewise)
    found = _bytewise_stages(list(bytewise.flat(decoder.steps)))
    found += stages.literals(bytewise.final_pairs(tokenizer))
    return _Bytewise(tokenizer, skip_special_tokens), found


def _denormalizer(decoder: spec.Subwords | spec.AfterBos) -> list[Stage]:
    if isinstance(decoder, spec.AfterBos) or decoder.denormalizer is None:
        return []

    def run(tokens: list[str]) -> list[str]:
        text = "".join(tokens).encode("latin-1")
        return [piece_decoder.denormalize(decoder, text).decode("latin-1")]

    return [stages.Whole(run)]


class _Pieces:
    """The bytes of each token; the first can lose a space."""

    def __init__(self, tokenizer: TokenizerSpec, decoder: spec.Pieces, skip: bool) -> None:
        self._tokenizer = tokenizer
        self._skip = skip
        self._drops = decoder.drop_first_space
        self._added = {token.id: token for token in tokenizer.added_tokens.tokens}

    def push(self, token_id: int) -> bytes:
        piece = roles.piece_of(
            self._tokenizer, self._added, token_id, skip_special_tokens=self._skip
        )
        drops, self._drops = self._drops, False
        return piece.removeprefix(b" ") if drops else piece

    def finish(self) -> bytes:
        return b""


class _Bytewise:
    """Pieces of the vocabulary, special ones left out."""

    def __init__(self, tokenizer: TokenizerSpec, skip: bool) -> None:
        self._tokenizer = tokenizer
        self._skipped = bytewise.special_ids(tokenizer) if skip else frozenset()

    def push(self, token_id: int) -> bytes | None:
        if token_id in self._skipped:
            return None
        return bytewise.piece_of(self._tokenizer, token_id)

    def finish(self) -> None:
        return None


def _bytewise_stages(steps: list[Decoder]) -> list[Stage]:
    found: list[Stage] = []
    fused = False
    for step in steps:
        if isinstance(step, spec.Fuse):
            fused = True
        elif isinstance(step, spec.Strip):
            found.append(_Outer(step, fused=fused))
        elif fused:
            found += _fused(step)
        else:
            found.append(stages.Each(_place(step)))
    return found


def _fused(step: Decoder) -> list[Stage]:
    """Return the stages of a step whose input is one token in parts."""
    if isinstance(step, spec.Replace) and isinstance(step.pattern, Text) and step.pattern.text:
        return stages.literals([(_latin(step.pattern.text), _latin(step.content))])
    return [stages.Whole(_step(step))]


def _latin(text: str) -> str:
    return to_bytes(text).decode("latin-1")


def _step(step: Decoder) -> Callable[[list[str]], list[str]]:
    def run(tokens: list[str]) -> list[str]:
        data = bytewise.apply_step(step, [token.encode("latin-1") for token in tokens])
        return [token.decode("latin-1") for token in data]

    return run


def _place(step: Decoder) -> Callable[[str, bool], str]:
    """Return a step for one token, first or not."""
    run = _step(step)
    return lambda token, first: run([token])[0] if first else run(["", token])[1]


class _Outer(stages.Stage):
    """A text taken once from the begin and once from the end."""

    def __init__(self, step: spec.Strip, *, fused: bool) -> None:
        self._content = _latin(step.content)
        self._start = step.start > 0 and bool(self._content)
        self._stop = step.stop > 0 and bool(self._content)
        self._fused = fused
        self._held: list[str] = []

    def push(self, token: str) -> list[str]:
        given, self._held = self._held, []
        if self._fused:
            return self._push_part("".join([*given, token]))
        token = self._begin(token)
        if self._stop and token.endswith(self._content):
            self._held = [token]
            return given
        return [*given, token]

    def _push_part(self, text: str) -> list[str]:
        if self._start and text != self._content and self._content.startswith(text):
            self._held = [text]
            return []
        text = self._begin(text)
        cut = len(text)
        if self._stop and (len(self._content) > 1 or text.endswith(self._content)):
            cut = max(cut - len(self._content), 0)
        self._held = [text[cut:]]
        return [text[:cut]]

    def _begin(self, text: str) -> str:
        starts, self._start = self._start, False
        return text.removeprefix(self._content) if starts else text

    def finish(self) -> list[str]:
        rest = [self._begin(text) for text in self._held]
        return [text.removesuffix(self._content) for text in rest] if self._stop else rest
