"""Decoders: tokens back to text. ``Decoder`` is the closed union."""

from __future__ import annotations

from mtkit.spec.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Union

    from mtkit.spec.text import Pattern


class ByteLevel(Record):
    """Letters of the byte alphabet back to bytes."""


class Metaspace(Record):
    """``replacement`` back to a space, dropped at the start as ``prepend_scheme`` says."""

    replacement: str = "\u2581"
    prepend_scheme: Literal["always", "first", "never"] = "always"
    split: bool = True


class WordPiece(Record):
    """Join with spaces, gluing pieces that begin with ``prefix``."""

    prefix: str = "##"
    cleanup: bool = True


class ByteFallback(Record):
    """Runs of ``<0xHH>`` tokens to the characters they spell, U+FFFD for each byte otherwise."""


class Fuse(Record):
    """Join all tokens into one."""


class Replace(Record):
    """Replace every match in each token."""

    pattern: Pattern
    content: str


class Strip(Record):
    """Remove a character up to ``start`` times in front of and ``stop`` times behind each token."""

    content: str
    start: int = 0
    stop: int = 0


class BPE(Record):
    """``suffix`` to a space, dropped on the last token."""

    suffix: str = "</w>"


class CTC(Record):
    """Collapse repeats, drop ``pad_token``, ``word_delimiter_token`` to a space."""

    pad_token: str = "<pad>"
    word_delimiter_token: str = "|"
    cleanup: bool = True


class Sequence(Record):
    """One after the other."""

    steps: tuple[Decoder, ...]


if TYPE_CHECKING:
    Decoder = Union[
        ByteLevel,
        Metaspace,
        WordPiece,
        ByteFallback,
        Fuse,
        Replace,
        Strip,
        BPE,
        CTC,
        Sequence,
    ]
