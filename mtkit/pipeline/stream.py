"""Decoding a stream of ids: text in whole characters, as soon as it cannot change any more.

Every decoder has a counterpart here that takes one token at a time and holds back what a later
token could still change: the bytes of a character that is not complete, a run of byte tokens (one
bad byte turns all of them into U+FFFD), the last token of a word-end decoder, spaces in front of
punctuation that does not follow yet. All that a stream gave, joined, is what decoding the whole
sequence gives.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from mtkit.pipeline import decoders as whole
from mtkit.spec import decoders as spec
from mtkit.spec.text import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from mtkit.pipeline.decoding import Decoding
    from mtkit.spec.decoders import Decoder

    class Stage(Protocol):
        """A decoder, token by token."""

        def push(self, token: str) -> list[str]:
            """Take a token and return the tokens that are settled."""

        def finish(self) -> list[str]:
            """Return what was held back."""


class DecodeStream:
    """Takes ids, gives text."""

    def __init__(self, decoding: Decoding, *, skip_special_tokens: bool) -> None:
        """Begin a stream."""
        self._decoding = decoding
        self._skip = skip_special_tokens
        self._utf8 = getincrementaldecoder("utf-8")("replace")
        self._ids: list[int] = []
        self._given = b""
        decoder = decoding.spec.decoder
        if decoding.by_bytes:
            self._stages: list[Stage] = []
        elif decoder is None:
            self._stages = [_Joined(decoding.spec.join)]
        else:
            self._stages, _ = _stages(decoder, fused=False)
        if not decoding.by_bytes and decoding.spec.clean_up_spaces != "none":
            self._stages.append(_Cleaned(whole.clean_up_steps(decoding.spec.clean_up_spaces)))

    def push(self, token_id: int) -> str:
        """Take an id and return the text that is settled now, often none."""
        if self._decoding.by_bytes:
            return self._utf8.decode(self._new_bytes(token_id))
        tokens = self._decoding.tokens([token_id], skip_special_tokens=self._skip)
        return self._characters(self._run(0, tokens))

    def finish(self) -> str:
        """End the stream and return what was held back."""
        if self._decoding.by_bytes:
            rest = self._settled(self._ids, final=True)[len(self._given) :]
            return self._utf8.decode(rest, True)
        tokens: list[str] = []
        for at, stage in enumerate(self._stages):
            tokens += self._run(at + 1, stage.finish())
        return self._characters(tokens) + self._utf8.decode(b"", True)

    def _run(self, first: int, tokens: list[str]) -> list[str]:
        for stage in self._stages[first:]:
            tokens = [given for token in tokens for given in stage.push(token)]
        return tokens

    def _characters(self, tokens: list[str]) -> str:
        data = "".join(tokens).encode("utf-8", "surrogateescape")
        return self._utf8.decode(data)

    def _new_bytes(self, token_id: int) -> bytes:
        self._ids.append(token_id)
        settled = self._settled(self._ids, final=False)
        new, self._given = settled[len(self._given) :], settled
        return new

    def _settled(self, ids: list[int], *, final: bool) -> bytes:
        """Return what two different continuations agree on."""
        data = self._decoding.decode_bytes(ids, skip_special_tokens=self._skip)
        if final:
            return data
        return data[: max(len(data) - 4, len(self._given))]


def _stages(decoder: Decoder, *, fused: bool) -> tuple[list[Stage], bool]:
    """Return the stages of a decoder and whether their output is one token in parts.

    Args:
        decoder: The decoder.
        fused: Whether its input is one token in parts.
    """
    if isinstance(decoder, spec.Sequence):
        stages: list[Stage] = []
        for step in decoder.steps:
            added, fused = _stages(step, fused=fused)
            stages += added
        return stages, fused
    if isinstance(decoder, spec.Fuse):
        return [], True
    if fused:
        return [_fused(decoder)], True
    if isinstance(decoder, spec.ByteLevel):
        return [_Bytes()], True
    if isinstance(decoder, spec.ByteFallback):
        return [_Run()], False
    if isinstance(decoder, spec.BPE):
        return [_Late(decoder)], False
    if isinstance(decoder, spec.CTC):
        return [_Different(decoder)], False
    if isinstance(decoder, spec.Metaspace):
        return [_Each(lambda token, first: whole.metaspace(decoder, token, first=first))], False
    if isinstance(decoder, spec.WordPiece):
        return [_Each(lambda token, first: whole.wordpiece(decoder, token, first=first))], False
    decode = whole.compile_decoder(decoder, lossy=True)
    return [_Each(lambda token, _: "".join(decode([token])))], False


def _fused(decoder: Decoder) -> Stage:
    """Return the stage of a decoder whose input is one token in parts."""
    if isinstance(decoder, spec.Strip):
        return _Ends(decoder)
    single = isinstance(decoder, spec.Replace) and isinstance(decoder.pattern, Text)
    decode = whole.compile_decoder(decoder, lossy=True)
    if single and len(decoder.pattern.text) == 1:  # type: ignore[union-attr]
        return _Each(lambda token, _: "".join(decode([token])))
    return _Whole(decode)


class _Each:
    """Each token on its own; only the first is told apart."""

    def __init__(self, decode: Callable[[str, bool], str]) -> None:
        self._decode = decode
        self._first = True

    def push(self, token: str) -> list[str]:
        text = self._decode(token, self._first)
        self._first = False
        return [text]

    def finish(self) -> list[str]:
        return []


class _Joined:
    """A separator between tokens."""

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._first = True

    def push(self, token: str) -> list[str]:
        first, self._first = self._first, False
        return [token if first else self._separator + token]

    def finish(self) -> list[str]:
        return []


class _Bytes:
    """Letters of the byte alphabet to characters."""

    def __init__(self) -> None:
        self._utf8 = getincrementaldecoder("utf-8")("replace")

    def push(self, token: str) -> list[str]:
        return [self._utf8.decode(whole.letters_to_bytes(token))]

    def finish(self) -> list[str]:
        return [self._utf8.decode(b"", True)]


class _Run:
    """Byte tokens; a run of them is settled by the token behind it."""

    def __init__(self) -> None:
        self._bytes: list[int] = []

    def push(self, token: str) -> list[str]:
        byte = whole.fallback_byte(token)
        if byte is not None:
            self._bytes.append(byte)
            return []
        return [*self.finish(), token]

    def finish(self) -> list[str]:
        run, self._bytes = self._bytes, []
        return whole.spelled(run, lossy=True)


class _Late:
    """The last token is written otherwise, so each waits for the next."""

    def __init__(self, decoder: spec.BPE) -> None:
        self._decoder = decoder
        self._held: list[str] = []

    def push(self, token: str) -> list[str]:
        settled = [whole.suffixed(self._decoder, held, last=False) for held in self._held]
        self._held = [token]
        return settled

    def finish(self) -> list[str]:
        return [whole.suffixed(self._decoder, held, last=True) for held in self._held]


class _Different:
    """Repeats are dropped."""

    def __init__(self, decoder: spec.CTC) -> None:
        self._decoder = decoder
        self._before: str | None = None

    def push(self, token: str) -> list[str]:
        if token == self._before:
            return []
        self._before = token
        text = whole.ctc_text(self._decoder, token)
        return [text] if text else []

    def finish(self) -> list[str]:
        return []


class _Ends:
    """A character taken from the ends of the whole text."""

    def __init__(self, decoder: spec.Strip) -> None:
        self._decoder = decoder
        self._left = decoder.start
        self._held = ""

    def push(self, token: str) -> list[str]:
        while self._left and token:
            if token[0] != self._decoder.content:
                self._left = 0
            else:
                token = token[1:]
                self._left -= 1
        text = self._held + token
        kept = len(text)
        while kept and text[kept - 1] == self._decoder.content:
            kept -= 1
        kept = max(kept, len(text) - self._decoder.stop)
        self._held = text[kept:]
        return [text[:kept]]

    def finish(self) -> list[str]:
        return [self._held[: max(len(self._held) - self._decoder.stop, 0)]]


class _Whole:
    """Nothing is settled before the end."""

    def __init__(self, decode: whole.Decode) -> None:
        self._decode = decode
        self._parts: list[str] = []

    def push(self, token: str) -> list[str]:
        self._parts.append(token)
        return []

    def finish(self) -> list[str]:
        return self._decode(["".join(self._parts)])


class _Cleaned:
    """Spaces dropped in front of punctuation: a text is settled up to its last words."""

    def __init__(self, steps: tuple[Callable[[str], str], ...]) -> None:
        self._steps = steps
        self._held = ""

    def push(self, token: str) -> list[str]:
        text = self._held + token
        # What the rules look for has at most four characters and begins with a space, so nothing
        # in front of a character that is neither a space nor one of theirs can still change.
        cut = max((at for at, c in enumerate(text) if c not in " .?!,'ntmsvred"), default=0)
        self._held = text[cut:]
        return [self._clean(text[:cut])]

    def finish(self) -> list[str]:
        return [self._clean(self._held)]

    def _clean(self, text: str) -> str:
        for step in self._steps:
            text = step(text)
        return text
