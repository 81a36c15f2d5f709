"""Streams of the decoders that work on bytes from the start; bytes are written as Latin-1.

Each ``source`` takes ids and gives what they settle; the stages behind it work on that.
"""

from __future__ import annotations

from mtkit.pipeline.decoders import bytewise
from mtkit.pipeline.decoders import pieces as roles
from mtkit.pipeline.decoders import stream_text as stages
from mtkit.pipeline.decoders import subwords as piece_decoder
from mtkit.pipeline.decoders.components import clean_up_steps
from mtkit.spec import TokenType
from mtkit.spec import decoders as spec
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

        def push(self, token_id: int) -> list[str]:
            """Take an id and return what is settled."""

        def finish(self) -> list[str]:
            """Return what was held back."""


def build(tokenizer: TokenizerSpec, *, skip_special_tokens: bool) -> tuple[Source, list[Stage]]:
    """Return the stream of a decoder that works on bytes."""
    decoder = tokenizer.decoder
    if isinstance(decoder, spec.Subwords):
        return _Subwords(tokenizer, decoder), []
    if isinstance(decoder, spec.AfterBos):
        return _AfterBos(tokenizer, skip_special_tokens), []
    if isinstance(decoder, spec.Pieces):
        clean_up = clean_up_steps(tokenizer.clean_up_spaces)
        found: list[Stage] = [stages.Cleaned(clean_up)] if clean_up else []
        return _Pieces(tokenizer, decoder, skip_special_tokens), found
    assert isinstance(decoder, spec.Bytewise)
    steps = list(bytewise.flat(decoder.steps))
    found = _bytewise_stages(steps)
    if any(isinstance(step, spec.WordPiece) for step in steps):
        found.append(stages.Cleaned((_without_spaces,)))
    if tokenizer.clean_up_spaces == "contractions":
        found.append(stages.Cleaned(clean_up_steps("contractions")))
    return _Bytewise(tokenizer, skip_special_tokens), found


def _without_spaces(text: str) -> str:
    for mark in bytewise.PUNCTUATION:
        text = text.replace(" " + mark.decode(), mark.decode())
    return text


class _Pieces:
    """The bytes of each token; the first can lose a space."""

    def __init__(self, tokenizer: TokenizerSpec, decoder: spec.Pieces, skip: bool) -> None:
        self._tokenizer = tokenizer
        self._skip = skip
        self._drops = decoder.drop_first_space

    def push(self, token_id: int) -> list[str]:
        piece = roles.piece_bytes(self._tokenizer, token_id, skip_special_tokens=self._skip)
        if self._drops and piece.startswith(b" "):
            piece = piece[1:]
        self._drops = False
        return [piece.decode("latin-1")]

    def finish(self) -> list[str]:
        return []


class _AfterBos:
    """What a token gives depends on the one before it."""

    def __init__(self, tokenizer: TokenizerSpec, skip: bool) -> None:
        self._tokenizer = tokenizer
        self._skip = skip
        self._before: list[int] = []

    def push(self, token_id: int) -> list[str]:
        ids = [*self._before, token_id]
        text = piece_decoder.decode(self._tokenizer, ids, skip_special_tokens=self._skip)
        before = piece_decoder.decode(self._tokenizer, self._before, skip_special_tokens=self._skip)
        # Two in front, so that the one before is not taken for the first of all.
        self._before = ids[-2:]
        return [text[len(before) :].decode("latin-1")]

    def finish(self) -> list[str]:
        return []


class _Subwords:
    """Pieces; bytes wait for the rest of their character, a denormalizer for the end."""

    def __init__(self, tokenizer: TokenizerSpec, decoder: spec.Subwords) -> None:
        self._tokenizer = tokenizer
        self._decoder = decoder
        self._ids: list[int] = []
        self._run: list[int] = []
        self._begun = False

    def push(self, token_id: int) -> list[str]:
        if self._decoder.denormalizer is not None or not self._begun:
            return self._whole(token_id)
        vocabulary = self._tokenizer.vocabulary
        if vocabulary.type_of(token_id) is TokenType.BYTE:
            self._run.append(token_id)
            return []
        ids, self._run = [*self._run, token_id], []
        return [self._decode(ids)]

    def _whole(self, token_id: int) -> list[str]:
        """Decode all ids as long as their beginning decides how the next is written."""
        self._ids.append(token_id)
        if self._decoder.denormalizer is not None:
            return []
        text = self._decode(self._ids)
        if not text or self._tokenizer.vocabulary.type_of(token_id) is TokenType.BYTE:
            return []
        self._begun = True
        return [text]

    def _decode(self, ids: list[int]) -> str:
        decoder = self._tokenizer.decoder
        assert isinstance(decoder, spec.Subwords)
        if self._begun:
            # Something has been written, so no mark is dropped any more.
            decoder = _keeping_marks(decoder)
        data = piece_decoder.decode_subwords(self._tokenizer, decoder, ids)
        return data.decode("latin-1")

    def finish(self) -> list[str]:
        return [self._decode(self._run if self._begun else self._ids)]


def _keeping_marks(decoder: spec.Subwords) -> spec.Subwords:
    return spec.Subwords(decoder.unk_surface, "none", None)


class _Bytewise:
    """Pieces of the vocabulary, special ones left out."""

    def __init__(self, tokenizer: TokenizerSpec, skip: bool) -> None:
        self._tokenizer = tokenizer
        self._skipped = bytewise.special_ids(tokenizer) if skip else frozenset()

    def push(self, token_id: int) -> list[str]:
        if token_id in self._skipped:
            return []
        return [bytewise.piece_of(self._tokenizer, token_id).decode("latin-1")]

    def finish(self) -> list[str]:
        return []


def _bytewise_stages(steps: list[Decoder]) -> list[Stage]:
    found: list[Stage] = []
    fused = False
    for step in steps:
        if isinstance(step, spec.Fuse):
            fused = True
        elif isinstance(step, spec.Strip):
            found.append(_Outer(step, fused=fused))
        elif fused:
            found.append(stages.Whole(_step(step)))
        else:
            found.append(stages.Each(_place(step)))
    return found


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
        self._content = to_bytes(step.content).decode("latin-1")
        self._start = step.start > 0
        self._stop = step.stop > 0
        self._fused = fused
        self._first = True
        self._held: list[str] = []

    def push(self, token: str) -> list[str]:
        given, self._held = self._held, [token]
        if self._fused:
            text = "".join([*given, token])
            if self._first and len(text) < len(self._content):
                self._held = [text]
                return []
            text = self._begin(text)
            cut = max(len(text) - len(self._content), 0) if self._stop else len(text)
            self._held = [text[cut:]]
            return [text[:cut]]
        return [self._begin(text) for text in given]

    def _begin(self, text: str) -> str:
        first, self._first = self._first, False
        if first and self._start and self._content:
            return text.removeprefix(self._content)
        return text

    def finish(self) -> list[str]:
        rest = [self._begin(text) for text in self._held]
        if self._stop and self._content:
            rest = [text.removesuffix(self._content) for text in rest]
        return rest
