"""What a command's names stand for: the tokenizer or the model, and which one was taken."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.base.binary import Source
    from mtkit.sources.locate import Located
    from mtkit.tokenizer.tokenizer import Tokenizer


def locate_named(name: str | None, *, download: bool | None = None) -> Located:
    """Return the file that a name stands for; a terminal's stderr says which one was taken."""
    from mtkit.errors import UsageError
    from mtkit.sources.locate import locate

    if name is not None and name.isdigit() and not os.path.exists(name):
        hint = "-t names a tokenizer: --truncate N cuts a text, generate has --threads N"
        raise UsageError("no such file", source=name, hint=hint)
    return _told(locate(name, download=download))


def open_named(
    name: str | None, *, download: bool | None = None, most: int | None = None
) -> Source:
    """Open what a name stands for; of an address, what tells the content of its file."""
    from mtkit.base.binary import Source
    from mtkit.sources.remote import MOST_BYTES, is_remote, open_remote

    if name is not None and is_remote(name) and not os.path.exists(name):
        return open_remote(name, most=MOST_BYTES if most is None else most)
    return Source.open(locate_named(name, download=download).path)


def model_named(name: str | None, *, quiet: bool = False) -> str:
    """Return the path of the model that a name stands for; as ``locate_named``."""
    from mtkit.errors import UsageError
    from mtkit.sources.locate import MODEL, locate

    try:
        file = locate(name, MODEL)
    except UsageError:
        if folder_named(name) is None:
            raise
        from shlex import quote

        hint = f"mtkit convert {quote(str(name))} --to gguf makes a GGUF of it"
        raise UsageError("is a HuggingFace model folder", source=str(name), hint=hint) from None
    return (file if quiet else _told(file)).path


def folder_named(name: str | None) -> str | None:
    """Return the model folder, config.json and weights, that a name stands for; else None."""
    if name is None:
        return None
    from mtkit.checkpoints import model_folder
    from mtkit.sources import hub

    path = os.path.expanduser(name)
    found = path if os.path.exists(path) else hub.find(name)
    return found if found is not None and model_folder.sniff(found) else None


def models_named(names: Sequence[str]) -> list[str]:
    """Return the models that names stand for: a folder of several files can be one, or many."""
    from mtkit.sources.models import models_of

    return [path for name in names for path in ([name] if folder_named(name) else models_of(name))]


def gguf_named(name: str) -> str:
    """Return the path of a GGUF that is only read: a file, "-", or a model by its name."""
    is_path = name == "-" or (os.path.lexists(name) and not os.path.isdir(name))
    return name if is_path else model_named(name)


def _told(file: Located) -> Located:
    """Say which file was taken where the command line does not; never in a pipe."""
    if file.which and sys.stderr.isatty():
        from mtkit.commands.terminal import Screen, part

        Screen(stderr=True).line(part("dim", f"using {file.which}"), hanging=2)
    return file


def load_named(
    name: str | None,
    *,
    reader: str | None = None,
    encoding: str | None = None,
    download: bool | None = None,
    verify_tables: bool = False,
) -> Tokenizer:
    """Load a tokenizer for a command; what is wrong with its file is said on stderr."""
    from mtkit.base.binary import Source
    from mtkit.errors import UsageError
    from mtkit.tokenizer.load import load_source

    file = locate_named(name, download=download)
    path = file.path
    asked = {"encoding": encoding} if encoding is not None else file.overrides
    source = Source.open(path, guard=True)
    tokenizer = load_source(source, overrides=asked, reader=reader, verify_tables=verify_tables)
    if encoding is not None and tokenizer.format_name != "tiktoken":
        from mtkit.sources.tiktoken_cache import encoding_of, names

        hint = f"for the published encoding: -t {encoding}"
        hint = hint if encoding_of(encoding) else f"published encodings: {', '.join(names())}"
        raise UsageError("is for .tiktoken files", source=name or "", field="--encoding", hint=hint)
    if tokenizer.warnings:
        from mtkit.commands.output import warn

        warn(path, tokenizer.warnings)
    return tokenizer
