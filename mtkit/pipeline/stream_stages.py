"""The stages of a stream of tokens: decoders token by token.

Each holds back what a later token could still change; its answers are, in parts, those that the
decoders (``pipeline.decoders``) give for a whole sequence.

The decoders that work on bytes from the start have a source in front, which takes ids and gives the
bytes that they settle; the stages behind it work on those, written as Latin-1.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from mtkit.pipeline import byte_decoders
from mtkit.pipeline import byte_decoders as piece_decoder
from mtkit.pipeline import byte_decoders as roles
from mtkit.pipeline import decoders as whole
from mtkit.pipeline.decoders import clean_up_pairs
from mtkit.pipeline.growth import decoded_limit, token_weight, too_long
from mtkit.spec import decoders as spec
from mtkit.spec.text import Text
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from mtkit.spec import TokenizerSpec
    from mtkit.spec.decoders import Decoder

    class Source(Protocol):
        """The first step: ids to bytes."""

        def push(self, token_id: int) -> bytes | None:
            """Take an id and return what is settled; None: no token."""

        def finish(self) -> bytes | None:
            """Return what was held back."""


class Stage:
    """A decoder, token by token."""

    def push(self, token: str) -> list[str]:
        """Take a token and return the tokens that are settled."""
        raise NotImplementedError

    def finish(self) -> list[str]:
        """Return what was held back."""
        return []


class EachToken(Stage):
    """Each token on its own; only the first is told apart."""

    def __init__(self, decode: Callable[[str, bool], str]) -> None:
        self._decode = decode
        self._first = True

    def push(self, token: str) -> list[str]:
        """Take a token."""
        text = self._decode(token, self._first)
        self._first = False
        return [text]


class Separator(Stage):
    """A separator between tokens."""

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._first = True

    def push(self, token: str) -> list[str]:
        """Take a token."""
        first, self._first = self._first, False
        return [token if first else self._separator + token]


class ByteLetters(Stage):
    """Letters of the byte alphabet to characters."""

    def __init__(self) -> None:
        self._utf8 = getincrementaldecoder("utf-8")("replace")

    def push(self, token: str) -> list[str]:
        """Take a token."""
        return [self._utf8.decode(whole.letters_to_bytes(token))]

    def finish(self) -> list[str]:
        """Give the rest."""
        return [self._utf8.decode(b"", True)]


class ByteRuns(Stage):
    """Byte tokens; a run of them is text as a whole or not at all, so what follows it settles it.

    Where a run cannot become UTF-8 any more, each of its bytes is U+FFFD at once.
    """

    def __init__(self) -> None:
        self._run: list[int] = []
        self._utf8 = getincrementaldecoder("utf-8")()
        self._broken = False

    def push(self, token: str) -> list[str]:
        """Take a token."""
        byte = whole.fallback_byte(token)
        if byte is None:
            return [*self.finish(), token]
        if self._broken:
            return ["\ufffd"]
        self._run.append(byte)
        try:
            self._utf8.decode(bytes((byte,)))
        except UnicodeDecodeError:
            given = self.finish()
            self._broken = True
            return given
        return []

    def finish(self) -> list[str]:
        """Give the rest."""
        run, self._run = self._run, []
        self._utf8.reset()
        self._broken = False
        return whole.spelled(run, lossy=True)


class WordEnds(Stage):
    """The last token is written otherwise, so each waits for the next."""

    def __init__(self, decoder: spec.BPE) -> None:
        self._decoder = decoder
        self._held: list[str] = []

    def push(self, token: str) -> list[str]:
        """Take a token."""
        settled = [whole.suffixed(self._decoder, held, last=False) for held in self._held]
        self._held = [token]
        return settled

    def finish(self) -> list[str]:
        """Give the rest."""
        return [whole.suffixed(self._decoder, held, last=True) for held in self._held]


class RepeatFilter(Stage):
    """Repeats are dropped."""

    def __init__(self, decoder: spec.CTC) -> None:
        self._decoder = decoder
        self._before: str | None = None

    def push(self, token: str) -> list[str]:
        """Take a token."""
        if token == self._before:
            return []
        self._before = token
        text = whole.ctc_text(self._decoder, token)
        return [text] if text else []


class EndStrip(Stage):
    """A character taken from the ends of one text; those that may be at its end are counted."""

    def __init__(self, decoder: spec.Strip) -> None:
        self._decoder = decoder
        self._content = decoder.content if len(decoder.content) == 1 else ""
        self._held = 0
        self._begun = False

    def push(self, token: str) -> list[str]:
        """Take a token."""
        body = token.strip(self._content)
        given = ""
        if body:
            held = self._held + len(token) - len(token.lstrip(self._content))
            given = self._content * (held - self._taken_in_front()) + body
            self._begun = True
            self._held = len(token) - len(token.rstrip(self._content))
        else:
            self._held += len(token)
        settled = max(self._held - self._taken_in_front() - self._decoder.stop, 0)
        self._held -= settled
        return [given + self._content * settled]

    def _taken_in_front(self) -> int:
        return 0 if self._begun else self._decoder.start

    def finish(self) -> list[str]:
        """Give the rest."""
        if self._begun:
            return [self._content * max(self._held - self._decoder.stop, 0)]
        return [whole.stripped(self._decoder, self._content * self._held)]


class WholeText(Stage):
    """Nothing is settled before the end."""

    def __init__(self, decode: Callable[[list[str]], list[str]]) -> None:
        self._decode = decode
        self._parts: list[str] = []

    def push(self, token: str) -> list[str]:
        """Take a token."""
        self._parts.append(token)
        return []

    def finish(self) -> list[str]:
        """Give the rest."""
        return self._decode(["".join(self._parts)])


class LiteralReplacement(Stage):
    """A literal replaced in one text that comes in parts; what may become one waits.

    The search is Knuth's, Morris's and Pratt's: a character costs the same, however long the
    literal is.
    """

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new
        self._size = 0
        self._shorter = _literal_borders(old)

    def push(self, token: str) -> list[str]:
        """Take a token."""
        if not self._size and self._old[0] not in token:
            return [token]
        given: list[str] = []
        most = left = decoded_limit(token_weight([token]))
        for character in token:
            while self._size and self._old[self._size] != character:
                shorter = self._shorter[self._size]
                given.append(self._old[: self._size - shorter])
                self._size = shorter
            if self._old[self._size] == character:
                self._size += 1
            else:
                given.append(character)
            if self._size == len(self._old):
                given.append(self._new)
                self._size = 0
                left -= token_weight([self._new])
                if left < 0:
                    raise too_long(most)
        return ["".join(given)]

    def finish(self) -> list[str]:
        """Give the rest."""
        return [self._old[: self._size]]


def literal_stages(pairs: Iterable[tuple[str, str]]) -> list[Stage]:
    """Return a stage for each (old, new)."""
    return [LiteralReplacement(*pair) for pair in pairs]


def _literal_borders(text: str) -> list[int]:
    """Return for the beginning of each size the longest shorter beginning that it ends with."""
    borders = [0, 0]
    for size in range(1, len(text)):
        shorter = borders[size]
        while shorter and text[shorter] != text[size]:
            shorter = borders[shorter]
        borders.append(shorter + (text[shorter] == text[size]))
    return borders


def build_byte_stream(
    tokenizer: TokenizerSpec, *, skip_special_tokens: bool
) -> tuple[Source, list[Stage]]:
    """Return the stream of a decoder that works on bytes."""
    decoder = tokenizer.decoder
    if isinstance(decoder, (spec.Subwords, spec.AfterBos)):
        source = piece_decoder.subword_stream(tokenizer, skip_special_tokens=skip_special_tokens)
        return source, _denormalizer_stages(decoder)
    if isinstance(decoder, spec.Pieces):
        pairs = clean_up_pairs(tokenizer.clean_up_spaces)
        return _PieceSource(tokenizer, decoder, skip_special_tokens), literal_stages(pairs)
    assert isinstance(decoder, spec.Bytewise)
    found = _bytewise_stages(list(byte_decoders.flat_steps(decoder.steps)))
    found += literal_stages(byte_decoders.final_clean_up_pairs(tokenizer))
    return _BytewiseSource(tokenizer, skip_special_tokens), found


def _denormalizer_stages(decoder: spec.Subwords | spec.AfterBos) -> list[Stage]:
    if isinstance(decoder, spec.AfterBos) or decoder.denormalizer is None:
        return []

    def run(tokens: list[str]) -> list[str]:
        text = "".join(tokens).encode("latin-1")
        return [piece_decoder.denormalize(decoder, text).decode("latin-1")]

    return [WholeText(run)]


class _PieceSource:
    """The bytes of each token; the first can lose a space."""

    def __init__(self, tokenizer: TokenizerSpec, decoder: spec.Pieces, skip: bool) -> None:
        self._tokenizer = tokenizer
        self._skip = skip
        self._drops = decoder.drop_first_space
        self._added = {token.id: token for token in tokenizer.added_tokens.tokens}

    def push(self, token_id: int) -> bytes:
        piece = roles.bytes_by_role(
            self._tokenizer, self._added, token_id, skip_special_tokens=self._skip
        )
        drops, self._drops = self._drops, False
        return piece.removeprefix(b" ") if drops else piece

    def finish(self) -> bytes:
        return b""


class _BytewiseSource:
    """Pieces of the vocabulary, special ones left out."""

    def __init__(self, tokenizer: TokenizerSpec, skip: bool) -> None:
        self._tokenizer = tokenizer
        self._skipped = byte_decoders.ids_left_out(tokenizer) if skip else frozenset()

    def push(self, token_id: int) -> bytes | None:
        if token_id in self._skipped:
            return None
        return byte_decoders.bytewise_piece(self._tokenizer, token_id)

    def finish(self) -> None:
        return None


def _bytewise_stages(steps: list[Decoder]) -> list[Stage]:
    found: list[Stage] = []
    fused = False
    for step in steps:
        if isinstance(step, spec.Fuse):
            fused = True
        elif isinstance(step, spec.Strip):
            found.append(_TextStrip(step, fused=fused))
        elif fused:
            found += _fused_bytewise(step)
        else:
            found.append(EachToken(_token_step(step)))
    return found


def _fused_bytewise(step: Decoder) -> list[Stage]:
    """Return the stages of a step whose input is one token in parts."""
    if isinstance(step, spec.Replace) and isinstance(step.pattern, Text) and step.pattern.text:
        return literal_stages([(_to_latin(step.pattern.text), _to_latin(step.content))])
    return [WholeText(_latin_step(step))]


def _to_latin(text: str) -> str:
    return to_bytes(text).decode("latin-1")


def _latin_step(step: Decoder) -> Callable[[list[str]], list[str]]:
    def run(tokens: list[str]) -> list[str]:
        data = byte_decoders.apply_bytewise_step(
            step, [token.encode("latin-1") for token in tokens]
        )
        return [token.decode("latin-1") for token in data]

    return run


def _token_step(step: Decoder) -> Callable[[str, bool], str]:
    """Return a step for one token, first or not."""
    run = _latin_step(step)
    return lambda token, first: run([token])[0] if first else run(["", token])[1]


class _TextStrip(Stage):
    """A text taken once from the begin and once from the end."""

    def __init__(self, step: spec.Strip, *, fused: bool) -> None:
        self._content = _to_latin(step.content)
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
