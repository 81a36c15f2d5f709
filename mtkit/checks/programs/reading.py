"""What a program makes of a file that mtkit has read: its answers beside those of mtkit."""

from __future__ import annotations

import os

from mtkit.base.binary import Source
from mtkit.base.record import Record
from mtkit.programs.asking import said_by, said_by_library, said_of_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.formats.contract import Loss, Written
    from mtkit.programs import Program
    from mtkit.programs.asking import Said
    from mtkit.tokenizer.tokenizer import Tokenizer

_CONFIG = ("tokenizer_config.json", "config.json")


class Reading(Record):
    """A program's reading of a file.

    Attributes:
        name: What read it.
        losses: What the file does not keep that was made for the program.
        converted: Whether one was.
        here: What mtkit says of each text.
        there: What the program says, of as many texts as it lived to answer.
    """

    name: str
    losses: tuple[Loss, ...]
    converted: bool
    here: Sequence[Said]
    there: Sequence[Said]

    @property
    def own_class(self) -> str:
        """The class of transformers that reads the file by its own rules; empty: by the file's."""
        from mtkit.formats.tokenizer_class import GENERIC

        name = self.name.partition(", ")[2]
        return "" if name in GENERIC else name


def read_by(program: Program, tokenizer: Tokenizer, texts: Sequence[str]) -> Reading:
    """Let a program read a file and answer for texts.

    Args:
        program: Which.
        tokenizer: What mtkit has read; a program reads the same file where it can.
        texts: What to ask.

    Raises:
        MissingExtra: The program's library is not installed.
        FormatError: The program refuses the file.
        UnsupportedError: Nothing that the program reads can hold the tokenizer.
        ResourceError: The library takes too long.
    """
    kind, path = tokenizer.format_name, tokenizer.source
    if _is_read(program, kind, path):
        here = said_by(tokenizer, texts)
        if not program.package:
            there = _by_rules(program, Source.open(path), texts, here)
            return Reading(program.name, (), False, here, there)
        name, there = said_by_library(program, kind, path, texts, here)
        return Reading(name, (), False, here, there)
    tokenizer, written = _converted(program, tokenizer)
    here = said_by(tokenizer, texts)
    if not program.package:
        from mtkit.conversion.verify import memory_source

        there = _by_rules(program, memory_source(written), texts, here)
        losses = dict(written.partial).get(program.name, written.losses)
        return Reading(program.name, losses, True, here, there)
    name, there = said_of_files(program, written.files, texts, here)
    return Reading(name, written.losses, True, here, there)


def _is_read(program: Program, kind: str, path: str) -> bool:
    """Tell whether a program reads a file as it lies there."""
    if kind not in program.reads or not os.path.isfile(path):
        return False
    folder, name = os.path.split(path)
    if kind == "hf":
        return name == "tokenizer.json" or program.name != "onnxruntime"
    is_named = any(os.path.exists(os.path.join(folder, beside)) for beside in _CONFIG)
    return is_named or program.name != "transformers"


def _converted(program: Program, tokenizer: Tokenizer) -> tuple[Tokenizer, Written]:
    """Return what is converted, with what a conversion adds around a text, and the files."""
    from mtkit.conversion.convert import write
    from mtkit.formats import get_format
    from mtkit.formats.contract import LOSS_CODES, WriteOptions

    tokenizer, _, written = write(tokenizer, get_format(program.writes), WriteOptions(), LOSS_CODES)
    return tokenizer, written


def _by_rules(
    program: Program, source: Source, texts: Sequence[str], asked: Sequence[Said]
) -> list[Said]:
    """Answer by the rules that mtkit has of a program."""
    from mtkit.formats import other_readings, recognize
    from mtkit.tokenizer.tokenizer import Tokenizer

    module = recognize(source)
    other = other_readings(module).get(program.name)
    spec = other.read(source).spec if other else module.read(source, {}).spec
    read = Tokenizer(spec, source=source.name)
    return said_by(read, texts, asked)
