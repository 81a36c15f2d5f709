"""What a command works on: the tokenizer or model that a name stands for, and texts.

Texts come as an argument, by ``--prompt``, from files, or through a pipe. Which file a name stands
for is written to a terminal's stderr where the command line does not say it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from mtkit.base.binary import Source
    from mtkit.sources.locate import Location
    from mtkit.tokenizer.tokenizer import Tokenizer


def locate_file(name: str | None, *, download: bool | None = None) -> Location:
    """Return the file that a name stands for; a terminal's stderr says which one was taken."""
    from mtkit.errors import UsageError
    from mtkit.sources.locate import locate

    if name is not None and name.isdigit() and not os.path.exists(name):
        hint = "-t names a tokenizer: --truncate N cuts a text, generate has --threads N"
        raise UsageError("no such file", source=name, hint=hint)
    return _announce(locate(name, download=download))


def open_file(name: str | None, *, download: bool | None = None, most: int | None = None) -> Source:
    """Open the file of a name; of an address, only the bytes that show its content."""
    from mtkit.base.binary import Source
    from mtkit.sources.remote import MOST_BYTES, is_remote, open_remote

    if name is not None and is_remote(name) and not os.path.exists(name):
        return open_remote(name, most=MOST_BYTES if most is None else most)
    return Source.open(locate_file(name, download=download).path)


def find_model(name: str | None, *, quiet: bool = False, download: bool | None = None) -> str:
    """Return the path of the model that a name stands for."""
    from mtkit.errors import UsageError
    from mtkit.sources.locate import MODEL, locate

    try:
        file = locate(name, MODEL, download=download)
    except UsageError:
        if find_folder(name) is None:
            raise
        from shlex import quote

        hint = f"mtkit convert {quote(str(name))} --to gguf makes a GGUF of it"
        raise UsageError("is a HuggingFace model folder", source=str(name), hint=hint) from None
    return (file if quiet else _announce(file)).path


def find_folder(name: str | None) -> str | None:
    """Return the model folder, config.json and weights, that a name stands for; else None."""
    folder = _folder_named(name)
    if folder is None:
        return None
    from mtkit.checkpoints import model_folder

    return folder if model_folder.sniff(folder) else None


def find_adapter(name: str | None) -> str | None:
    """Return the folder of an adapter, without a model in it, that a name stands for; else None."""
    folder = _folder_named(name)
    if folder is None:
        return None
    from mtkit.checkpoints import adapter_folder

    return folder if adapter_folder.sniff(folder) and find_folder(name) is None else None


def _folder_named(name: str | None) -> str | None:
    """Return the folder that a name stands for, also in the hub's cache; else None."""
    path = None if name is None else os.path.expanduser(name)
    if path is not None and not os.path.exists(path):
        from mtkit.sources import hub

        path = hub.find(name or "")
    return path if path is not None and os.path.isdir(path) else None


def undescribed_weights(path: str) -> str | None:
    """Return the file that lists the weights of a folder without config.json; None: no such."""
    path = os.path.expanduser(path)
    if not os.path.isdir(path):
        return None
    from mtkit.checkpoints import model_folder

    return model_folder.undescribed_weights(path)


def find_models(names: Sequence[str]) -> list[str]:
    """Return the models that names stand for: a folder of several files can be one, or many."""
    from mtkit.sources.locate import models_of

    return [
        path
        for name in names
        for path in ([name] if find_folder(name) or find_adapter(name) else models_of(name))
    ]


def find_gguf(name: str) -> str:
    """Return the path of a GGUF that is only read: a file, "-", or a model by its name."""
    is_path = name == "-" or (os.path.lexists(name) and not os.path.isdir(name))
    return name if is_path else find_model(name)


def _announce(file: Location) -> Location:
    """Say which file was taken where the command line does not; never in a pipe."""
    if file.which and sys.stderr.isatty():
        from mtkit.commands.terminal import Screen, part

        Screen(stderr=True).line(part("dim", f"using {file.which}"), hanging=2)
    return file


def load_tokenizer(
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
    from mtkit.tokenizer.load import in_its_folder, load_source

    file = locate_file(name, download=download)
    path = file.path
    overrides = {"encoding": encoding} if encoding is not None else file.overrides
    source = Source.open(path, guard=True)
    tokenizer = load_source(source, overrides=overrides, reader=reader, verify_tables=verify_tables)
    if file.is_folder and reader is None:
        tokenizer = in_its_folder(tokenizer)
    if encoding is not None and tokenizer.format_name != "tiktoken":
        from mtkit.sources.encodings import encoding_names, encoding_of

        hint = f"for the published encoding: -t {encoding}"
        hint = (
            hint if encoding_of(encoding) else f"published encodings: {', '.join(encoding_names())}"
        )
        raise UsageError("is for .tiktoken files", source=name or "", field="--encoding", hint=hint)
    if tokenizer.warnings:
        from mtkit.commands.output import warn

        warn(path, tokenizer.warnings)
    return tokenizer


_CHUNK_BYTES = 1 << 16
_LONGEST_NAME = 4096
"""Bytes of a path on Linux."""


def special_mode(parse: bool, no_parse: bool) -> bool | None:
    """Return whether special tokens in a text are parsed; None: as the reference library does."""
    from mtkit.errors import UsageError

    if parse and no_parse:
        raise UsageError("--parse-special and --no-parse-special exclude each other")
    return True if parse else False if no_parse else None


def open_texts(
    text: str | None,
    prompt: str | None,
    files: Sequence[str] | None,
    hint: str,
    *,
    may_be_none: bool = False,
    model: bool = False,
) -> Iterator[tuple[str, BinaryIO | bytes]]:
    """Yield name and content of each text that a command is given.

    The argument or ``--prompt`` is bytes and has no name; a file or what comes through a pipe is
    open, and closed afterwards. ``model``: the command runs a model (``-m``), else a tokenizer.
    """
    from mtkit.base.binary import open_input, standard_input
    from mtkit.errors import UsageError

    if sum(source not in (None, []) for source in (text, prompt, files)) > 1:
        raise UsageError("give only one of TEXT, --prompt and --file")
    if not files and text is None and prompt is None:
        if may_be_none:
            return
        if sys.stdin.isatty():
            raise UsageError("no text", hint=hint)
    literal = text if prompt is None else prompt
    if literal is not None and (literal != "-" or prompt is not None):
        # Bytes of the command line that are not valid UTF-8 arrive as surrogate escapes.
        yield "", literal.encode("utf-8", "surrogateescape")
        return
    for path in files or ["-"]:
        with standard_input() if path == "-" else open_input(path) as file:
            if path != "-" and file.peek(4)[:4] == b"GGUF":  # type: ignore[attr-defined]  # buffered
                line = _corrected_line(
                    hint, [name for name in files or () if name != path], path, model
                )
                raise UsageError("is a model, not a text", source=path, hint=line)
            yield path, file


def _corrected_line(hint: str, texts: Sequence[str], path: str, model: bool) -> str:
    """Return the command line of ``hint`` with a file as the model that was given as a text."""
    if not hint:
        return ""
    from shlex import join

    _, command, first, *_ = hint.split()  # "mtkit count FILE": files need no option
    option = [] if first.startswith("FILE") else ["-f"]
    words = [part for text in texts or ["FILE"] for part in (*option, text)]
    return f"run: mtkit {join([command, *words, '-m' if model else '-t', path])}"


def check_no_file(text: str | None, prompt: str | None, command: str) -> None:
    """Refuse a file name as the prompt: the model would continue the name."""
    from shlex import quote

    from mtkit.errors import UsageError

    if text is None or len(text) > _LONGEST_NAME or "\n" in text:
        return
    path = os.path.expanduser(text)
    if (text.lower().endswith(".gguf") and " " not in text) or _is_model(path):
        prompt_option = f" -p {quote(prompt)}" if prompt is not None else ""
        line = f"run: mtkit {command} -m {quote(text)}{prompt_option}"
        raise UsageError("is a model, not a text", source=text, hint=line)
    if os.path.isfile(path) and prompt is None:
        hint = f"run: mtkit {command} -f {quote(text)}; -p takes the name as the text"
        raise UsageError("is a file, not a text", source=text, hint=hint)


def _is_model(path: str) -> bool:
    if os.path.isdir(path):
        return any(name == "config.json" or name.endswith(".gguf") for name in os.listdir(path))
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"GGUF"
    except OSError:
        return False


def read_texts(
    prompt: str | None, files: Sequence[str] | None, hint: str
) -> list[tuple[str, bytes]]:
    """Return name and bytes of each text that a command is given, as ``open_texts`` yields them."""
    contents = open_texts(None, prompt, files, hint, model=True)
    return [
        (name, content if isinstance(content, bytes) else content.read())
        for name, content in contents
    ]


def read_lines(content: BinaryIO | bytes) -> Iterator[list[bytes]]:
    """Yield lines without their ends, in groups as they arrive."""
    if isinstance(content, bytes):
        yield content.splitlines()
        return
    unfinished: list[bytes] = []
    while chunk := content.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]  # a buffered file's
        first, *rest = chunk.split(b"\n")
        unfinished.append(first)
        if rest:
            lines = [b"".join(unfinished), *rest[:-1]]
            unfinished = [rest[-1]]
            yield [line.removesuffix(b"\r") for line in lines]
    if any(unfinished):
        yield [b"".join(unfinished).removesuffix(b"\r")]
