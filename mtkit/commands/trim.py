"""``mtkit trim``: a model with a smaller vocabulary."""

from __future__ import annotations

import os

from mtkit.base.record import Record
from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_gguf
from mtkit.commands.options import FORCE_FILES, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.gguf import GgufFile
    from mtkit.llm.trim import Trimmed


OPTIONS = {
    "file": Option("", "GGUF model.", "FILE"),
    "keep": Option("--keep", "File with ids to keep, one per line.", "FILE"),
    "corpus": Option("--corpus", "Text whose tokens to keep. Repeatable.", "FILE"),
    "coverage": Option("--coverage", "Share of the text's tokens to cover.", "P", low=0, high=1),
    "multiple": Option("--multiple", "Round the number of ids up to a multiple of N.", "N", low=1),
    "id_map": Option("--map", "File for new id, old id, token: .tsv or .json.", "FILE"),
    "force": FORCE_FILES,
}


def trim(
    file: str,
    out: str | None = None,
    keep: str | None = None,
    corpus: list[str] | None = None,
    coverage: float = 0.999,
    multiple: int = 64,
    id_map: str | None = None,
    dry_run: bool = False,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Shrink a model's vocabulary, embedding and output head to the tokens you need.

    The parts that a kept token is merged from, byte tokens and special tokens are kept as well.
    Rows are copied byte for byte; logits are bit-identical if 64 divides the number of rows. Texts
    made of kept tokens get the same tokens, which is checked before anything is written; other
    texts get smaller ones. Ids change: the map is written next to the file as OUT.ids.tsv. Either
    both files are written, or neither. Piped output: path, ids before, after, bytes of tensors
    before, after, path of the map.

    \b
    Examples:
      mtkit trim model.gguf --corpus corpus.txt -o small.gguf
      mtkit trim model.gguf --corpus de.txt --corpus en.txt --coverage 0.9999 -o small.gguf
      mtkit trim model.gguf --keep vocab.txt -o small.gguf --map ids.json
    """
    from mtkit.base.files import check_target
    from mtkit.commands.new_files import warn_of_dropped_parts
    from mtkit.errors import UsageError
    from mtkit.gguf.in_place import write_ggufs
    from mtkit.gguf.shards import open_whole
    from mtkit.llm.trim import frequent_ids, read_texts
    from mtkit.llm.trim import trim as cut
    from mtkit.tokenizer import comparison

    if out in ("", "-") or (out is None and not dry_run) or file == "-":
        raise UsageError("no output file", hint="add -o NEW.gguf, or --dry-run")
    if (keep is None) == (not corpus):
        both = "--keep and --corpus both say it" if corpus else "--keep FILE or --corpus FILE"
        raise UsageError("no tokens to keep", hint=both)
    file = find_gguf(file)
    map_path = _map_path(file, out, id_map, [*(corpus or []), *([keep] if keep else [])])
    target = None if dry_run else out
    for path in (target, map_path) if target else ():  # before it takes minutes
        check_target(path, force=force)
    model = open_whole(file)
    warn_of_dropped_parts(model)
    texts = [text for name in corpus or [] for text in read_texts(name)]
    ids = frequent_ids(file, texts, coverage) if keep is None else _listed_ids(model, keep)
    trimmed = cut(file, ids, multiple=multiple, texts=[*comparison.probe_texts(), *texts])
    if target:
        table = _format_map(trimmed, as_json=map_path.endswith(".json"))
        write_ggufs({map_path: table.encode(), target: trimmed.draft.chunks()}, force=force)
    sizes = (
        sum(tensor.n_bytes for tensor in model.tensors),
        sum(tensor.n_bytes for tensor in trimmed.draft.tensors.values()),
    )
    output.write_report(
        _Report(target, map_path, trimmed, sizes),
        as_json=as_json,
        document=_document,
        screen=_show,
        rows=_rows,
    )


command = Command(trim, OPTIONS)


class _Report(Record):
    """A model that was trimmed.

    Attributes:
        target: Where it was written; None of a dry run.
    """

    target: str | None
    map_path: str
    trimmed: Trimmed
    n_bytes: tuple[int, int]


def _map_path(file: str, out: str | None, id_map: str | None, inputs: Sequence[str]) -> str:
    """Return where the map of ids goes; nothing that is read is overwritten."""
    from mtkit.errors import UsageError

    path = id_map or (f"{os.path.splitext(out)[0]}.ids.tsv" if out else "")
    if out is not None and os.path.realpath(path) in map(os.path.realpath, (out, file)):
        raise UsageError("is the model itself", source=path)
    for target in filter(None, (out, path)):
        if os.path.realpath(target) in map(os.path.realpath, inputs):
            raise UsageError("is the list of tokens to keep", source=target)
    return path


def _listed_ids(model: GgufFile, path: str) -> Sequence[int]:
    from mtkit.gguf.arrays import metadata_array
    from mtkit.llm.frequencies import read_vocabulary

    size = len(metadata_array(model.metadata, "tokenizer.ggml.tokens", "string"))
    return read_vocabulary(path, size)


def _document(report: _Report) -> dict[str, object]:
    return {
        "schema": "mtkit.trim/1",
        "written": report.target,
        "map": report.map_path if report.target else None,
        "ids_before": report.trimmed.n_before,
        "ids": len(report.trimmed.ids),
        "bytes_before": report.n_bytes[0],
        "bytes": report.n_bytes[1],
        "texts_checked": report.trimmed.checked,
    }


def _show(report: _Report) -> None:
    from mtkit.commands.terminal import Screen, count_part, part, size_part

    trimmed = report.trimmed
    ids, sizes = (trimmed.n_before, len(trimmed.ids)), report.n_bytes
    screen = Screen()
    if report.target:
        screen.verdict(part("name", report.target), good=True)
    screen.facts(
        [
            ("ids", [count_part(ids[0]), " → ", count_part(ids[1])]),
            ("tensors", [size_part(sizes[0]), " → ", size_part(sizes[1])]),
            ("same tokens", [count_part(trimmed.checked, "text")]),
            *([("map", [part("name", report.map_path)])] if report.target else []),
        ]
    )


def _rows(report: _Report) -> list[tuple[object, ...]]:
    ids = report.trimmed.n_before, len(report.trimmed.ids)
    return [(report.target or "", *ids, *report.n_bytes, report.map_path)]


def _format_map(trimmed: Trimmed, *, as_json: bool) -> str:
    import json

    from mtkit.base.escape import printable

    rows = list(zip(range(len(trimmed.ids)), trimmed.ids, trimmed.tokens, strict=True))
    if as_json:
        entries = [{"id": new, "old": old, "token": printable(token)} for new, old, token in rows]
        return json.dumps({"schema": "mtkit.trim-map/1", "ids": entries}, ensure_ascii=False) + "\n"
    return "".join(f"{new}\t{old}\t{output.cell(token)}\n" for new, old, token in rows)
