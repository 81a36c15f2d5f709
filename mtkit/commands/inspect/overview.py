"""``mtkit inspect`` of several files, or of a folder of models: a row for each."""

from __future__ import annotations

import os

from mtkit.commands import output
from mtkit.commands.failures import raise_last
from mtkit.commands.named import folder_named
from mtkit.errors import MtkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_NAMES = ("path", "format", "bytes", "name", "architecture", "parameters", "file_type", "tokens")


def show(paths: Sequence[str], *, most: int | None, as_json: bool) -> None:
    """Print a row for each file: what it is, its size, the model's name, architecture and type.

    Raises:
        MtkitError: The first file that cannot be read; the others are shown.
    """
    rows: list[tuple[Any, ...]] = []
    errors: list[MtkitError] = []
    for path in paths:
        try:
            rows.append(_row(path, most))
        except MtkitError as error:
            errors.append(error.located(path))
            rows.append((path, *[None] * (len(_NAMES) - 1)))
    if as_json:
        found = [dict(zip(_NAMES, row, strict=True)) for row in rows]
        output.write_json({"schema": "mtkit.inspect-files/1", "files": found})
    elif output.is_terminal():
        _show(rows)
    else:
        output.write_rows(rows)
    if errors:
        raise_last(errors)


def _row(path: str, most: int | None) -> tuple[Any, ...]:
    from mtkit.checkpoints.kind import kind_of
    from mtkit.sources.locate import locate
    from mtkit.sources.remote import MOST_BYTES, is_remote, open_source

    folder = folder_named(path)
    if folder is not None:
        return path, "folder", *_folder_cells(folder)
    source = open_source(path if is_remote(path) else locate(path).path, most=most or MOST_BYTES)
    kind = kind_of(source)
    if kind == "gguf":
        from mtkit.inspection.gguf import inspect_gguf

        found = inspect_gguf(source)
        tokens = found.vocabulary.tokens if found.vocabulary else None
        model = found.name, found.architecture, found.parameters, found.file_type
        shards = found.shards.shards if found.shards else ()
        size = sum(len(shard.file.data) for shard in shards if shard.file) or len(source.data)
        return path, "gguf", size, *model, tokens
    if kind in ("index", "safetensors"):
        from mtkit.inspection.safetensors import model_of

        known = model_of(source)
        return path, "safetensors", known.n_bytes, None, None, known.parameters, None, None
    from mtkit.tokenizer.load import load_source

    tokenizer = load_source(source)
    unknown = [None] * 4
    return path, tokenizer.format_name, len(source.data), *unknown, tokenizer.vocab_size


def _folder_cells(path: str) -> tuple[Any, ...]:
    from mtkit.conversion.folder_report import folder_report

    found = folder_report(path)
    architecture = found.gguf.architecture if found.gguf else found.class_name
    tokens = found.vocabulary.tokens if found.vocabulary else None
    types = "/".join(found.survey.types)
    name = found.gguf.name if found.gguf else None
    return found.survey.n_bytes, name, architecture, found.survey.parameters, types, tokens


def _show(rows: Sequence[tuple[Any, ...]]) -> None:
    from mtkit.commands.terminal import Screen, part, sticky

    folder = _folder([row[0] for row in rows])
    shown: list[tuple[object, ...]] = []
    for path, kind, size, name, architecture, parameters, file_type, tokens in rows:
        if kind is None:
            failed = part("bad", "✗ cannot be read")
            shown.append((path.removeprefix(folder), "", "", "", failed))
            continue
        weights = f"{output.amount(parameters)} parameters" if parameters else ""
        facts = [name, architecture, sticky(weights), file_type]
        text = " · ".join(fact for fact in facts if fact)
        shown.append((path.removeprefix(folder), kind, output.size(size), tokens, text))
    columns = ("file:name", "format", "size>:dim", "tokens>", "model")
    Screen().table(columns, shown, elastic=4)


def _folder(paths: Sequence[str]) -> str:
    """Return the folder, with its last slash, in which all paths as they were named begin."""
    common = os.path.commonprefix(paths)  # noqa: RUF071  cut behind a slash
    return common[: common.rfind(os.sep) + 1]
