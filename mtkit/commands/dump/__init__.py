"""``mtkit dump``: one kind of content of a file, whole."""

from __future__ import annotations

import os

from mtkit.commands.command import Command
from mtkit.commands.inputs import find_model, load_tokenizer, open_file
from mtkit.commands.options import Option

# What can be dumped -> the module that does it, with a function ``show``.
SUBJECTS = {
    "metadata": "mtkit.commands.dump.gguf",
    "tensors": "mtkit.commands.dump.gguf",
    "vocab": "mtkit.commands.dump.tokenizer",
    "merges": "mtkit.commands.dump.tokenizer",
    "scores": "mtkit.commands.dump.tokenizer",
    "template": "mtkit.commands.dump.tokenizer",
}


OPTIONS = {
    "what": Option("", ", ".join(SUBJECTS), "WHAT", values=tuple(SUBJECTS)),
    "file": Option(
        "", "File, or - for standard input; default: the tokenizer that mtkit config shows.", "FILE"
    ),
    "pattern": Option(
        "--filter", "Names or tokens that contain this text, or match this glob.", "PATTERN"
    ),
    "ids": Option("--id", "Token ids, such as 1234,5000-5010.", "IDS"),
    "style": Option("--style", "Print as another tool does.", "llama2c"),
}


def dump(
    what: str,
    file: str | None = None,
    pattern: str | None = None,
    ids: str | None = None,
    style: str | None = None,
    as_reader: str | None = None,
    download: bool = False,
    as_json: bool = False,
) -> None:
    """Print all of a file's tokens, merges, scores, metadata, tensors or its template.

    Columns: vocab: id, token, type, and score if there are scores; merges: rank, left, right;
    scores: id, score, token; metadata: key, type, value; tensors: name, shape (fastest axis first),
    type, offset in the data section, bytes. template prints the chat template unchanged. Text is
    escaped to one line; bytes that are not UTF-8 become \\xNN. On a terminal, each token is shown
    as text (·hello), and in another column as the file spells it (Ġhello); --filter searches
    both.

    \b
    Examples:
      mtkit dump vocab tokenizer.model | head
      mtkit dump vocab --filter " hello"
      mtkit dump vocab model.gguf --id 1234,5000-5010
      mtkit dump scores tokenizer.bin --style llama2c
      mtkit dump metadata model.gguf --filter tokenizer.chat_template
      mtkit dump tensors model.gguf | sort -k5 -n
    """
    from importlib import import_module

    from mtkit.errors import UsageError

    if what not in SUBJECTS:
        hint = f"known: {', '.join(SUBJECTS)}"
        if os.path.exists(what):
            hint = f"run: mtkit {_line(file, what)}; {hint}"
        raise UsageError(f"cannot dump {what!r}", hint=hint)
    module = import_module(SUBJECTS[what])
    if SUBJECTS[what].endswith(".tokenizer"):
        tokenizer = load_tokenizer(file, reader=as_reader, download=download)
        module.show(what, tokenizer, pattern=pattern, ids=ids, style=style, as_json=as_json)
        return
    if style is not None:
        raise UsageError("--style is for dump scores")
    if ids is not None:
        raise UsageError("--id is for dump vocab and dump scores")
    if file is None:
        raise UsageError(f"dump {what} needs a GGUF file")
    if what == "tensors" and file.endswith((".safetensors", ".safetensors.index.json")):
        hint = f"run: mtkit inspect --tensors {file}"
        raise UsageError("dump tensors is for a GGUF", source=file, hint=hint)
    source = open_file(_gguf_of(file), download=download)
    module.show(what, source, pattern=pattern, as_json=as_json)


command = Command(dump, OPTIONS)


def _line(what: str | None, file: str) -> str:
    """Return the line for a file that was named without what is wanted of it."""
    if what in SUBJECTS:
        return f"dump {what} {file}"
    if os.path.isdir(file):
        return f"inspect {file}"
    return f"dump {'metadata' if file.endswith('.gguf') else 'vocab'} {file}"


def _gguf_of(name: str) -> str:
    """Return the GGUF that a name stands for, of a folder the one in it."""
    from mtkit.errors import UsageError

    if not os.path.isdir(name):
        return name
    try:
        return find_model(name)
    except UsageError as error:
        error.hint = f"run: mtkit inspect {name}"
        raise
