"""``mtkit count``: how many tokens texts have."""

from __future__ import annotations

import os

from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import load_tokenizer, open_texts, special_mode
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


OPTIONS = {
    "names": Option("", "Text files and folders; - or none: standard input.", "[FILE]..."),
}


def count(
    names: list[str] | None = None,
    tokenizer: str | None = None,
    prompt: str | None = None,
    files: list[str] | None = None,
    encoding: str | None = None,
    no_special: bool = False,
    parse_special: bool = False,
    no_parse_special: bool = False,
    as_reader: str | None = None,
    download: bool = False,
    verify_tables: bool = False,
    as_json: bool = False,
) -> None:
    """Count the tokens in texts: a row per file, and a total.

    In a folder, every text file is counted, including source code and subfolders, but not hidden
    files and binary files. Piped output: count and name, or only the count if the text comes from
    standard input or -p.

    \b
    Examples:
      mtkit count chapter*.txt -t cl100k_base
      mtkit count data/
      git diff | mtkit count
    """
    from mtkit.errors import UsageError

    if names and files:
        raise UsageError("give the files as arguments or with --file")
    special = special_mode(parse_special, no_parse_special)
    paths = [*(names or ()), *(files or ())]
    paths = [file for path in paths for file in _files(path)]
    source = load_tokenizer(
        tokenizer,
        encoding=encoding,
        reader=as_reader,
        download=download,
        verify_tables=verify_tables,
    )
    counts = []
    for name, content in open_texts(None, prompt, paths, 'mtkit count FILE, or -p "a text"'):
        try:
            ids = source.encode_array(
                content if isinstance(content, bytes) else content.read(),
                add_special_tokens=not no_special,
                parse_special=special,
            )
        except UsageError as error:  # about the text
            raise error.located(name if paths else "") from None
        counts.append((name if paths else "", len(ids)))
    show_counts(counts, as_json=as_json)


command = Command(count, OPTIONS)


def _files(path: str) -> list[str]:
    """Return a file, or the text files of a folder."""
    from mtkit.base.files import is_text_file, visible_files
    from mtkit.errors import UsageError

    if os.path.isdir(path):
        texts = list(filter(is_text_file, visible_files(path)))
        if not texts:
            raise UsageError("has no text files", source=path)
        return texts
    if path != "-" and not os.path.exists(path):
        hint = 'to count a literal text: mtkit count -p "…"'
        raise UsageError("no such file", source=path, hint=hint)
    return [path]


def show_counts(counts: Sequence[tuple[str, int]], *, as_json: bool = False) -> None:
    """Print the number of tokens of each text with its name, and the total of several."""
    total = sum(number for _, number in counts)
    rows = [(number, *[name] * bool(name)) for name, number in counts]
    if as_json:
        texts = [{"name": name or None, "tokens": number} for name, number in counts]
        output.write_json({"schema": "mtkit.count/1", "texts": texts, "total": total})
    elif output.is_terminal():
        from mtkit.commands.terminal import Screen, part

        sums = [(total, part("head", "total"))] * (len(counts) > 1)
        Screen().table(("tokens>", "text:name"), [*rows, *sums], elastic=1)
    else:
        output.write_rows([*rows, *[(total, "total")] * (len(counts) > 1)])
