"""Decoders as small steps over the tokens of a sequence, see native/decode/decode_steps.cpp."""

from __future__ import annotations

from mtkit.engine.opcodes import DecoderKind, Edge
from mtkit.engine.program_writer import NONE, text, u8, u32
from mtkit.errors import UnsupportedError
from mtkit.spec import decoders, fields
from mtkit.spec.text import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtkit.engine.program import Program
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.decoders import Decoder

BYTE_RUNS = u8(DecoderKind.BYTE_RUNS)
DIFFERENT = u8(DecoderKind.DIFFERENT)
NOT_EMPTY = u8(DecoderKind.NOT_EMPTY)
BYTES = u8(DecoderKind.BYTES)
EACH_LETTER = u8(DecoderKind.EACH_LETTER)
EACH_BYTE = u8(DecoderKind.EACH_BYTE)
FIRST_SPACE = u8(DecoderKind.FIRST_SPACE)
FIRST_MARK = u8(DecoderKind.FIRST_MARK)
WHOLE = u8(DecoderKind.WHOLE)
TEXT = u8(DecoderKind.TEXT)


def _join(separator: str = "") -> bytes:
    return u8(DecoderKind.JOIN) + text(separator)


def _replace(
    old: str,
    new: str,
    *,
    first: str | None = None,
    last: str | None = None,
    by_bytes: bool = False,
) -> bytes:
    """Replace a text; an empty one is found around every character, or every byte."""
    edge = Edge.FIRST if first is not None else Edge.LAST if last is not None else Edge.NONE
    at_edge = text(first or last or "")
    return u8(DecoderKind.REPLACE) + text(old) + text(new) + u8(edge) + at_edge + u8(by_bytes)


def _glue(prefix: str, *, first_too: bool) -> bytes:
    return u8(DecoderKind.GLUE) + text(prefix) + u8(first_too)


def _clean(pairs: Iterable[tuple[str, str]]) -> bytes:
    listed = list(pairs)
    return (
        u8(DecoderKind.CLEAN)
        + u32(len(listed))
        + b"".join(text(old) + text(new) for old, new in listed)
    )


def clean_steps(rule: str) -> list[bytes]:
    """Return the steps over the whole text that ``clean_up_spaces`` asks for."""
    from mtkit.pipeline.decoders.components import clean_up_pairs

    pairs = clean_up_pairs(rule)
    return [_join(), _clean(pairs)] if pairs else []


def chain_steps(program: Program, *, mapped: bool) -> tuple[list[bytes], bool]:
    """Return the steps of a chain of components, and whether pieces are to begin as bytes.

    Args:
        program: The program of the specification, which has its patterns.
        mapped: The table of pieces has bytes instead of letters of the byte alphabet.

    Raises:
        UnsupportedError: The core has no step for a component.
    """
    spec = program.spec
    clean = clean_steps(spec.clean_up_spaces)
    if spec.decoder is None:
        joined = [_join(spec.join)] if spec.join or clean else []
        return joined + clean, False
    listed = list(flat(spec.decoder))
    as_bytes = mapped and bool(listed) and isinstance(listed[0], decoders.ByteLevel)
    steps: list[bytes] = []
    for at, step in enumerate(listed):
        rest = listed[at + 1 :]
        if isinstance(step, decoders.ByteLevel):
            steps += [] if as_bytes and at == 0 else [BYTES]
            if any(not isinstance(other, decoders.Fuse) for other in rest):
                steps += [_join(), TEXT]
        elif isinstance(step, decoders.Fuse):
            # Parts of a character that come together by joining stay apart in the pipeline.
            steps += [WHOLE, _join()] if any(map(_sees_characters, rest)) else [_join()]
        else:
            steps += _chain_step(step, program)
    return steps + clean, as_bytes


def _sees_characters(step: Decoder) -> bool:
    """Tell whether a step does something else where characters are only bytes."""
    if isinstance(step, decoders.ByteLevel):
        return True
    words = [getattr(step, name) for name in fields(type(step))]
    if isinstance(step, decoders.Replace):
        if not isinstance(step.pattern, Text):
            return True
        words = [step.pattern.text]
    return any(isinstance(word, str) and not (word and word.isascii()) for word in words)


def flat(component: Decoder) -> Iterable[Decoder]:
    """Give the steps of nested sequences in order."""
    if isinstance(component, decoders.Sequence):
        for step in component.steps:
            yield from flat(step)
    else:
        yield component


def _chain_step(step: Decoder, program: Program) -> list[bytes]:
    from mtkit.pipeline.decoders.components import CLEAN_UPS

    if isinstance(step, decoders.Metaspace):
        first = None if step.prepend_scheme == "never" else ""
        return [_replace(step.replacement, " ", first=first)]
    if isinstance(step, decoders.WordPiece):
        # Where there is no prefix, every piece has it.
        glue = [_glue(step.prefix, first_too=False)] if step.prefix else []
        return [*glue, _clean(CLEAN_UPS)] if step.cleanup else glue
    if isinstance(step, decoders.ByteFallback):
        return [BYTE_RUNS]
    if isinstance(step, decoders.Replace):
        if isinstance(step.pattern, Text) and step.pattern.text:
            return [_replace(step.pattern.text, step.content)]
        return [u8(DecoderKind.MATCHES) + program.matcher(step.pattern) + text(step.content)]
    if isinstance(step, decoders.Strip):
        # It goes character by character: several are never found.
        content = step.content if len(step.content) == 1 else ""
        return [
            u8(DecoderKind.STRIP) + text(content) + u32(_count(step.start)) + u32(_count(step.stop))
        ]
    if isinstance(step, decoders.BPE):
        return [_replace(step.suffix, " ", last="")]
    if isinstance(step, decoders.CTC):
        steps = [DIFFERENT, _replace(step.pad_token, "")]
        if step.cleanup:
            steps += [_clean(CLEAN_UPS), _replace(step.word_delimiter_token, " ")]
        return [*steps, NOT_EMPTY]
    raise UnsupportedError(f"the core has no step for {type(step).__name__}")


def _count(number: int) -> int:
    """Return a number of times that no text is longer than."""
    return max(0, min(number, NONE - 1))


def bytewise_steps(spec: TokenizerSpec, *, mapped: bool) -> tuple[list[bytes], bool]:
    """Return the steps of a ``Bytewise`` decoder; see ``chain_steps``."""
    from mtkit.pipeline.decoders.bytewise import final_pairs

    assert isinstance(spec.decoder, decoders.Bytewise)
    listed = [leaf for step in spec.decoder.steps for leaf in flat(step)]
    as_bytes = mapped and bool(listed) and isinstance(listed[0], decoders.ByteLevel)
    steps = []
    for step in listed[1:] if as_bytes else listed:
        steps += _bytewise_step(step)
    pairs = final_pairs(spec)
    if pairs:
        steps += [_join(), _clean(pairs)]
    return steps, as_bytes


def _bytewise_step(step: Decoder) -> list[bytes]:
    if isinstance(step, decoders.ByteLevel):
        return [EACH_LETTER]
    if isinstance(step, decoders.ByteFallback):
        return [EACH_BYTE]
    if isinstance(step, decoders.Metaspace):
        replaced = _replace(step.replacement, " ", by_bytes=True)
        return [replaced] if step.prepend_scheme == "never" else [replaced, FIRST_SPACE]
    if isinstance(step, decoders.WordPiece):
        return [_glue(step.prefix, first_too=True)]
    if isinstance(step, decoders.FirstMark):
        return [FIRST_MARK]
    if isinstance(step, decoders.Fuse):
        return [_join()]
    if isinstance(step, decoders.Replace):
        return [_replace(getattr(step.pattern, "text", ""), step.content, by_bytes=True)]
    if isinstance(step, decoders.Strip):
        return [u8(DecoderKind.ENDS) + text(step.content) + u8(step.start > 0) + u8(step.stop > 0)]
    raise UnsupportedError(f"the core has no step for {type(step).__name__}")
