"""Decoders: what each member of ``spec.decoders`` makes of the tokens of a sequence.

A decoder maps a list of texts to a list of texts; in the end they are joined. Bytes that are not
valid UTF-8 travel as surrogate escapes where ``lossy`` is off; where it is on, the components that
make characters out of bytes write U+FFFD for them, as their reference does.

Source: huggingface/tokenizers 0.23, decoders/.
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.patterns.matcher import compile_pattern
from mtkit.pipeline.growth import check_tokens, too_long, utf8_size
from mtkit.spec import decoders as spec
from mtkit.unicode.utf8 import bytes_of_letters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtkit.spec.decoders import Decoder

    Decode = Callable[[list[str], int], list[str]]

    """Takes tokens and how many bytes they may become, see ``growth``."""


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


def compile_decoder(component: Decoder, *, lossy: bool) -> Decode:
    """Return the function of a decoder."""
    if isinstance(component, spec.Sequence):
        steps = [compile_decoder(step, lossy=lossy) for step in component.steps]

        def run(tokens: list[str], most: int) -> list[str]:
            for step in steps:
                tokens = step(tokens, most)
            return tokens

        return run
    decode = _compile(component, lossy=lossy)

    def checked(tokens: list[str], most: int) -> list[str]:
        tokens = decode(tokens, most)
        check_tokens(tokens, most)
        return tokens

    return checked


def _compile(component: Decoder, *, lossy: bool) -> Decode:
    """Return the function of a decoder that is not a sequence."""
    if isinstance(component, spec.ByteLevel):
        return lambda tokens, _: [from_bytes(b"".join(map(letters_to_bytes, tokens)), lossy=lossy)]
    if isinstance(component, spec.Metaspace):
        return lambda tokens, _: [
            metaspace(component, t, first=not n) for n, t in enumerate(tokens)
        ]
    if isinstance(component, spec.WordPiece):
        return lambda tokens, _: [
            wordpiece(component, t, first=not n) for n, t in enumerate(tokens)
        ]
    if isinstance(component, spec.ByteFallback):
        return lambda tokens, _: _byte_fallback(tokens, lossy=lossy)
    if isinstance(component, spec.Fuse):
        return lambda tokens, _: ["".join(tokens)]
    if isinstance(component, spec.Replace):
        return _replace(component)
    if isinstance(component, spec.Strip):
        return lambda tokens, _: [stripped(component, t) for t in tokens]
    if isinstance(component, spec.BPE):
        return lambda tokens, _: [
            suffixed(component, t, last=n == len(tokens) - 1) for n, t in enumerate(tokens)
        ]
    if isinstance(component, spec.CTC):
        return lambda tokens, _: _ctc(component, tokens)
    raise UnsupportedError(f"does not know the decoder {type(component).__name__}")


def _replace(component: spec.Replace) -> Decode:
    matcher, content = compile_pattern(component.pattern), component.content

    def run(tokens: list[str], most: int) -> list[str]:
        written, made = 0, []
        for token in tokens:
            matches = matcher.find(token)
            written += len(matches) * utf8_size(content)
            if token and written > most:
                raise too_long(most)
            made.append(replaced(token, matches, content))
        return made

    return run


def from_bytes(data: bytes, *, lossy: bool) -> str:
    """Read UTF-8."""
    return data.decode("utf-8", "replace" if lossy else "surrogateescape")


def letters_to_bytes(token: str) -> bytes:
    """Read the byte alphabet; a token with another letter stays as it is, all of it."""
    data = bytes_of_letters(token)
    return token.encode("utf-8", "surrogateescape") if data is None else data


def metaspace(component: spec.Metaspace, token: str, *, first: bool) -> str:
    """Write spaces for the mark, nothing in the first token where one was put in front."""
    drops = first and component.prepend_scheme != "never"
    return token.replace(component.replacement, "" if drops else " ")


def wordpiece(component: spec.WordPiece, token: str, *, first: bool) -> str:
    """Glue a piece that continues a word, set others apart by a space."""
    if not first and token.startswith(component.prefix):
        token = token[len(component.prefix) :]
    elif not first:
        token = " " + token
    return clean_up(token) if component.cleanup else token


def clean_up(text: str, pairs: Iterable[tuple[str, str]] = CLEAN_UPS) -> str:
    """Take spaces out that tokenization put in front of punctuation."""
    for old, new in pairs:
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


def replaced(token: str, matches: list[tuple[int, int]], content: str) -> str:
    """Write ``content`` over the matches."""
    if not token:
        return token
    parts, done = [], 0
    for first, last in matches:
        parts += [token[done:first], content]
        done = last
    return "".join(parts) + token[done:]


def stripped(component: spec.Strip, token: str) -> str:
    """Remove a character from the ends, as often as asked for."""
    first, last = 0, len(token)
    while first < min(component.start, len(token)) and token[first] == component.content:
        first += 1
    for removed in range(component.stop):
        if removed == len(token):
            raise UnsupportedError(
                f"cannot strip {component.stop} characters from the end of {token!r};"
                " the reference fails here, too",
                field="decoder.stop",
            )
        if token[last - 1] != component.content:
            break
        last -= 1
    if first > last:
        raise UnsupportedError(
            f"strips {token!r} twice, from both ends; the reference fails here, too",
            field="decoder",
        )
    return token[first:last]


def suffixed(component: spec.BPE, token: str, *, last: bool) -> str:
    """Write a space for the mark at the end of a word, nothing on the last token."""
    return rust_replace(token, component.suffix, "" if last else " ")


def rust_replace(text: str, old: str, new: str) -> str:
    """Replace all of a literal; an empty one is found around every character."""
    return text.replace(old, new)


def fallback_byte(token: str) -> int | None:
    """Return the byte that ``<0xHH>`` spells."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">") and token.isascii():
        digits = token[3:5]
        if digits[0] == "+":  # the reference's number parser takes a sign
            digits = "0" + digits[1]
        if all(digit in "0123456789abcdefABCDEF" for digit in digits):
            return int(digits, 16)
    return None


def spelled(run: list[int], *, lossy: bool) -> list[str]:
    """Return the texts that a run of bytes becomes: its characters, or U+FFFD for each byte."""
    try:
        return [bytes(run).decode("utf-8")] if run else []
    except UnicodeDecodeError:
        return ["\ufffd"] * len(run) if lossy else [from_bytes(bytes(run), lossy=False)]


def _byte_fallback(tokens: list[str], *, lossy: bool) -> list[str]:
    result: list[str] = []
    run: list[int] = []
    for token in tokens:
        byte = fallback_byte(token)
        if byte is not None:
            run.append(byte)
            continue
        result += [*spelled(run, lossy=lossy), token]
        run = []
    return result + spelled(run, lossy=lossy)


def ctc_text(component: spec.CTC, token: str) -> str:
    """Return what one token, no repeat, becomes."""
    text = rust_replace(token, component.pad_token, "")
    if component.cleanup:
        text = rust_replace(clean_up(text), component.word_delimiter_token, " ")
    return text


def _ctc(component: spec.CTC, tokens: list[str]) -> list[str]:
    kept = [t for n, t in enumerate(tokens) if n == 0 or tokens[n - 1] != t]
    return [text for text in (ctc_text(component, token) for token in kept) if text]
