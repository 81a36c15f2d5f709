"""Decoders as the base of a .mtok can hold them."""

from __future__ import annotations

from mtkit.formats.mtok.base_writer import listed, string, u8, u32
from mtkit.spec import decoders as de
from mtkit.spec.text import MARK, Regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.formats.contract import Losses
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.decoders import Decoder

FIELD = "decoder"
BYTE_LEVEL, BYTE_FALLBACK, METASPACE, WORD_PIECE, FUSE, REPLACE, STRIP, SEQUENCE = range(8)
NEVER = "\x00\x00"
"""A prefix that no piece has, so that all pieces are joined with spaces."""


def write_decoder(spec: TokenizerSpec, losses: Losses) -> bytes:
    """Write a decoder; type 0 would be the byte alphabet, so none is Fuse."""
    parts = list(_parts(spec.decoder, spec, losses))
    return listed(SEQUENCE, parts) if parts else u8(FUSE)


def _parts(component: Decoder | None, spec: TokenizerSpec, losses: Losses) -> Iterator[bytes]:
    match component:
        case None:
            if spec.join:
                yield u8(WORD_PIECE) + string(NEVER) + u8(0)
                losses.add("decoding", FIELD, "decoding drops the space before . ? ! ,")
        case de.Sequence() | de.Bytewise():
            for step in component.steps:
                yield from _parts(step, spec, losses)
        case de.ByteLevel():
            yield u8(BYTE_LEVEL)
        case de.ByteFallback():
            yield u8(BYTE_FALLBACK)
        case de.FirstMark():
            yield u8(REPLACE) + string(MARK) + string(" ")
        case de.Fuse():
            yield u8(FUSE)
        case de.Metaspace():
            losses.add(
                "decoding", FIELD, "decoding drops one leading space, however many there are"
            )
            prefix = component.prepend_scheme != "never"
            yield u8(METASPACE) + string(component.replacement) + u8(prefix)
        case de.WordPiece():
            yield u8(WORD_PIECE) + string(component.prefix) + u8(component.cleanup)
            losses.add("decoding", FIELD, "decoding drops spaces before . ? ! , in the whole text")
        case de.Replace():
            if isinstance(component.pattern, Regex) or not component.pattern.text:
                losses.add("decoding", FIELD, "replacements by a pattern are skipped")
            else:
                yield u8(REPLACE) + string(component.pattern.text) + string(component.content)
        case de.Strip():
            yield u8(STRIP) + string(component.content) + u32(component.start, component.stop)
        case de.BPE():
            yield u8(REPLACE) + string(component.suffix) + string(" ")
            yield u8(FUSE)
            yield u8(STRIP) + string(" ") + u32(0, 1)
        case de.Subwords():
            yield from _marks(first=component.drop_marks != "none")
            losses.add("decoding", FIELD, "the unknown token is decoded to its name")
        case de.AfterBos():
            yield from _marks(first=True)
        case de.Pieces():
            yield from _pieces(component, losses)
        case _:
            losses.add("decoding", FIELD, f"{type(component).__name__} is skipped")


def _marks(*, first: bool) -> Iterator[bytes]:
    yield u8(REPLACE) + string(MARK) + string(" ")
    yield u8(BYTE_FALLBACK)
    yield u8(FUSE)
    if first:
        yield u8(STRIP) + string(" ") + u32(1, 0)


def _pieces(component: de.Pieces, losses: Losses) -> Iterator[bytes]:
    match component.spelling:
        case "marks":
            if component.drop_first_space:
                losses.add(
                    "decoding", FIELD, "no leading space is dropped if the first token is hidden"
                )
            yield from _marks(first=component.drop_first_space)
        case "byte_alphabet":
            yield u8(BYTE_LEVEL)
        case "words":
            yield u8(WORD_PIECE) + string("##") + u8(0)
            losses.add("decoding", FIELD, "decoding drops spaces before . ? ! , in the whole text")
        case "plain" | "bytes":
            yield u8(BYTE_FALLBACK)
            yield u8(FUSE)
        case _:
            losses.add("decoding", FIELD, f"{component.spelling} are not written")
