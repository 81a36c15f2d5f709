"""Decoders token by token: what each member of ``spec.decoders`` makes of tokens.

A decoder is a list of stages. A stage takes a token, gives the tokens that are settled, and holds
back what a later one could still change. A sequence is decoded by running stage after stage over
all its tokens (``run_stages``), a stream by running each token through all stages.

Bytes that are not valid UTF-8 travel as surrogate escapes where ``lossy`` is off; where it is on,
the stages that make characters out of bytes write U+FFFD for them, as their reference does.

Source: huggingface/tokenizers 0.23, decoders/.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from mtkit.errors import UnsupportedError
from mtkit.patterns.matcher import compile_pattern
from mtkit.pipeline.growth import too_long, utf8_size
from mtkit.spec import components_of
from mtkit.spec import decoders as spec
from mtkit.spec.text import Text
from mtkit.unicode.utf8 import bytes_of_letters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mtkit.spec.decoders import Decoder


CLEAN_UPS = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


def clean_up(text: str) -> str:
    """Take spaces out that tokenization put in front of punctuation."""
    for old, new in CLEAN_UPS:
        text = text.replace(old, new)
    return text


def clean_up_pairs(rule: str) -> tuple[tuple[str, str], ...]:
    """Return what ``clean_up_spaces`` replaces in the whole text, one after the other."""
    pairs = {old: new for old, new in CLEAN_UPS if old != " do not"}
    if rule == "three_passes":
        # One pass for several marks is what a pass for each gives: none makes room for another.
        del pairs[" n't"]
        return tuple(pairs.items())
    return {"full": tuple(pairs.items()), "contractions": tuple(pairs.items())[4:]}.get(rule, ())


def decoder_stages(
    decoder: Decoder, *, lossy: bool, fused: bool = False
) -> tuple[list[Stage], bool]:
    """Return the stages of a decoder and whether their output is one token in parts."""
    stages: list[Stage] = []
    for step in components_of(decoder):
        if isinstance(step, spec.Fuse):
            fused = True
        elif fused:
            stages += _fused_stages(step, lossy=lossy)
            fused = not isinstance(step, spec.CTC)  # which makes no token of nothing
        else:
            stages.append(_stage(step, lossy=lossy))
            fused = isinstance(step, spec.ByteLevel)
    return stages, fused


def run_stages(stages: Iterable[Stage], tokens: list[str], limit: int) -> list[str]:
    """Run stages over all tokens of a sequence."""
    for stage in stages:
        stage.limit = left = limit
        settled = []
        for token in _run_stage(stage, tokens):
            left -= utf8_size(token)
            if left < 0:
                raise too_long(limit)
            settled.append(token)
        tokens = settled
    return tokens


def _run_stage(stage: Stage, tokens: list[str]) -> Iterator[str]:
    for token in ["".join(tokens)] if stage.takes_parts else tokens:
        yield from stage.push(token)
    yield from stage.finish()


def _stage(step: Decoder, *, lossy: bool) -> Stage:
    """Return the stage of a decoder that is not a sequence, for tokens that stand alone."""
    if isinstance(step, spec.ByteLevel):
        return ByteLetters(lossy=lossy)
    if isinstance(step, spec.Metaspace):
        return EachToken(lambda token, first: _metaspace(step, token, first=first))
    if isinstance(step, spec.WordPiece):
        return EachToken(lambda token, first: _wordpiece(step, token, first=first))
    if isinstance(step, spec.ByteFallback):
        return ByteRuns(lossy=lossy)
    if isinstance(step, spec.Replace):
        return Replacement(step)
    if isinstance(step, spec.Strip):
        return EachToken(lambda token, _: _strip(step, token))
    if isinstance(step, spec.BPE):
        return WordEnds(step)
    if isinstance(step, spec.CTC):
        return RepeatFilter(step)
    raise UnsupportedError(f"does not know the decoder {type(step).__name__}")


def _fused_stages(step: Decoder, *, lossy: bool) -> list[Stage]:
    """Return the stages of a decoder whose input is one token in parts."""
    if isinstance(step, spec.Strip):
        return [EndStrip(step)]
    pairs = _literal_pairs(step)
    if pairs and all(old for old, _ in pairs):
        return literal_stages(pairs)
    return [WholeText(_stage(step, lossy=lossy))]


def _literal_pairs(step: Decoder) -> list[tuple[str, str]]:
    """Return what a decoder replaces in a token that is the only one, if it does only that."""
    if isinstance(step, spec.Replace) and isinstance(step.pattern, Text):
        return [(step.pattern.text, step.content)]
    if isinstance(step, spec.Metaspace):
        return [(step.replacement, " " if step.prepend_scheme == "never" else "")]
    if isinstance(step, spec.BPE):
        return [(step.suffix, "")]
    if isinstance(step, spec.WordPiece) and step.cleanup:
        return list(CLEAN_UPS)
    return []


class Stage:
    """A decoder, token by token.

    Attributes:
        takes_parts: Whether its input is one token in parts, which may as well come as one.
        limit: How many bytes it may make of one token; set by what runs it.
    """

    takes_parts = False
    limit = 0

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
        first, self._first = self._first, False
        return [self._decode(token, first)]


def _metaspace(step: spec.Metaspace, token: str, *, first: bool) -> str:
    """Write spaces for the mark, nothing in the first token where one was put in front."""
    drops = first and step.prepend_scheme != "never"
    return token.replace(step.replacement, "" if drops else " ")


def _wordpiece(step: spec.WordPiece, token: str, *, first: bool) -> str:
    """Glue a piece that continues a word, set others apart by a space."""
    if not first:
        glued = token.startswith(step.prefix)
        token = token[len(step.prefix) :] if glued else " " + token
    return clean_up(token) if step.cleanup else token


def _strip(step: spec.Strip, token: str) -> str:
    """Remove a character from the ends, as often as asked for."""
    first, last = 0, len(token)
    while first < min(step.start, len(token)) and token[first] == step.content:
        first += 1
    for removed in range(step.stop):
        if removed == len(token):
            raise UnsupportedError(
                f"cannot strip {step.stop} characters from the end of {token!r};"
                " the reference fails here, too",
                field="decoder.stop",
            )
        if token[last - 1] != step.content:
            break
        last -= 1
    if first > last:
        raise UnsupportedError(
            f"strips {token!r} twice, from both ends; the reference fails here, too",
            field="decoder",
        )
    return token[first:last]


class Replacement(Stage):
    """A content written over the matches of a pattern, in each token."""

    def __init__(self, step: spec.Replace) -> None:
        self._matcher = compile_pattern(step.pattern)
        self._content = step.content

    def push(self, token: str) -> list[str]:
        """Take a token."""
        matches = self._matcher.find(token) if token else []
        if len(matches) * utf8_size(self._content) > self.limit:
            raise too_long(self.limit)
        parts, end = [], 0
        for start, stop in matches:
            parts += [token[end:start], self._content]
            end = stop
        return ["".join(parts) + token[end:]]


class ByteLetters(Stage):
    """Letters of the byte alphabet to characters."""

    def __init__(self, *, lossy: bool) -> None:
        self._utf8 = getincrementaldecoder("utf-8")("replace" if lossy else "surrogateescape")

    def push(self, token: str) -> list[str]:
        """Take a token."""
        return [self._utf8.decode(letters_to_bytes(token))]

    def finish(self) -> list[str]:
        """Give the rest."""
        return [self._utf8.decode(b"", True)]


def letters_to_bytes(token: str) -> bytes:
    """Read the byte alphabet; a token with another letter stays as it is, all of it."""
    data = bytes_of_letters(token)
    return token.encode("utf-8", "surrogateescape") if data is None else data


class ByteRuns(Stage):
    """Byte tokens; a run of them is text as a whole or not at all, so what follows it settles it.

    Where a run cannot become UTF-8 any more, each of its bytes is U+FFFD at once, or stays what it
    is in one token.
    """

    def __init__(self, *, lossy: bool) -> None:
        self._lossy = lossy
        self._run = bytearray()
        self._utf8 = getincrementaldecoder("utf-8")()
        self._broken = False

    def push(self, token: str) -> list[str]:
        """Take a token."""
        byte = _fallback_byte(token)
        if byte is None:
            return [*self.finish(), token]
        if self._broken:
            return ["\ufffd"]
        self._run.append(byte)
        if self._lossy:
            try:
                self._utf8.decode(bytes((byte,)))
            except UnicodeDecodeError:
                settled = self.finish()
                self._broken = True
                return settled
        return []

    def finish(self) -> list[str]:
        """Give the rest."""
        run, self._run = bytes(self._run), bytearray()
        self._utf8.reset()
        self._broken = False
        try:
            return [run.decode()] if run else []
        except UnicodeDecodeError:
            return (
                ["\ufffd"] * len(run) if self._lossy else [run.decode("utf-8", "surrogateescape")]
            )


def _fallback_byte(token: str) -> int | None:
    """Return the byte that ``<0xHH>`` spells."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">") and token.isascii():
        digits = token[3:5]
        if digits[0] == "+":  # the reference's number parser takes a sign
            digits = "0" + digits[1]
        if all(digit in "0123456789abcdefABCDEF" for digit in digits):
            return int(digits, 16)
    return None


class WordEnds(Stage):
    """A space for the mark at the end of a word, nothing in the last token, so each waits."""

    def __init__(self, step: spec.BPE) -> None:
        self._suffix = step.suffix
        self._held: list[str] = []

    def push(self, token: str) -> list[str]:
        """Take a token."""
        settled = [held.replace(self._suffix, " ") for held in self._held]
        self._held = [token]
        return settled

    def finish(self) -> list[str]:
        """Give the rest."""
        return [held.replace(self._suffix, "") for held in self._held]


class RepeatFilter(Stage):
    """Repeats are dropped, and tokens of which nothing is left."""

    def __init__(self, step: spec.CTC) -> None:
        self._step = step
        self._before: str | None = None

    def push(self, token: str) -> list[str]:
        """Take a token."""
        if token == self._before:
            return []
        self._before = token
        text = token.replace(self._step.pad_token, "")
        if self._step.cleanup:
            text = clean_up(text).replace(self._step.word_delimiter_token, " ")
        return [text] if text else []


class EndStrip(Stage):
    """A character taken from the ends of one text; those that may be at its end are counted."""

    takes_parts = True

    def __init__(self, step: spec.Strip) -> None:
        self._step = step
        self._content = step.content if len(step.content) == 1 else ""
        self._held = 0
        self._in_front = step.start
        self._begins = True

    def push(self, token: str) -> list[str]:
        """Take a token."""
        body = token.strip(self._content)
        text = ""
        if body:
            held = self._held + len(token) - len(token.lstrip(self._content))
            text = self._content * (held - self._in_front) + body
            self._begins, self._in_front = False, 0
            self._held = len(token) - len(token.rstrip(self._content))
        else:
            self._held += len(token)
        settled = max(self._held - self._in_front - self._step.stop, 0)
        self._held -= settled
        return [text + self._content * settled]

    def finish(self) -> list[str]:
        """Give the rest."""
        if self._begins:
            return [_strip(self._step, self._content * self._held)]
        return [self._content * max(self._held - self._step.stop, 0)]


class WholeText(Stage):
    """Nothing is settled before the end: then a stage takes all parts as one token."""

    takes_parts = True

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._parts: list[str] = []

    def push(self, token: str) -> list[str]:
        """Take a token."""
        self._parts.append(token)
        return []

    def finish(self) -> list[str]:
        """Give the rest."""
        self._stage.limit = self.limit
        return [*self._stage.push("".join(self._parts)), *self._stage.finish()]


class LiteralReplacement(Stage):
    """A literal replaced in one text that comes in parts; what may become one waits.

    The search is Knuth's, Morris's and Pratt's: a character costs the same, however long the
    literal is.
    """

    takes_parts = True

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new
        self._size = 0
        self._shorter = _literal_borders(old)

    def push(self, token: str) -> list[str]:
        """Take a token."""
        settled: list[str] = []
        left = self.limit // max(utf8_size(self._new), 1)
        if not self._size:
            # Where nothing waits, ``str`` searches: only what is left at the end can begin a match.
            *parts, token = token.split(self._old)
            left -= len(parts)
            if left < 0:
                raise too_long(self.limit)
            cut = max(len(token) - len(self._old) + 1, 0)
            settled.append(self._new.join([*parts, token[:cut]]))
            token = token[cut:]
        for character in token:
            while self._size and self._old[self._size] != character:
                shorter = self._shorter[self._size]
                settled.append(self._old[: self._size - shorter])
                self._size = shorter
            if self._old[self._size] == character:
                self._size += 1
            else:
                settled.append(character)
            if self._size == len(self._old):
                settled.append(self._new)
                self._size = 0
                left -= 1
                if left < 0:
                    raise too_long(self.limit)
        return ["".join(settled)]

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
