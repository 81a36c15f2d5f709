"""``mtkit trim``: a model with a smaller vocabulary."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands import output
from mtkit.commands.application import application
from mtkit.commands.inputs import find_gguf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.llm.trim import Trimmed

app = application()


@app.command()
def trim(
    file: Annotated[str, typer.Argument(metavar="FILE", help="GGUF model.")],
    out: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="File to write.")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="FILE", help="File with ids to keep, one per line."),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", metavar="FILE", help="Text whose tokens to keep. Repeatable."),
    ] = None,
    coverage: Annotated[
        float,
        typer.Option(
            "--coverage", metavar="P", min=0, max=1, help="Share of the text's tokens to cover."
        ),
    ] = 0.999,
    multiple: Annotated[
        int,
        typer.Option(
            "--multiple", metavar="N", min=1, help="Round the number of ids up to a multiple of N."
        ),
    ] = 64,
    id_map: Annotated[
        str | None,
        typer.Option(
            "--map", metavar="FILE", help="File for new id, old id, token: .tsv or .json."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check without writing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
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
    import os

    from mtkit.base.files import check_target
    from mtkit.commands.new_files import warn_of_dropped_parts
    from mtkit.errors import UsageError
    from mtkit.gguf.arrays import metadata_array
    from mtkit.gguf.in_place import write_ggufs
    from mtkit.gguf.shards import open_whole
    from mtkit.llm import frequencies
    from mtkit.llm.trim import frequent_ids, read_texts
    from mtkit.llm.trim import trim as cut
    from mtkit.tokenizer import comparison

    if out in ("", "-") or (out is None and not dry_run) or file == "-":
        raise UsageError("no output file", hint="add -o NEW.gguf, or --dry-run")
    if (keep is None) == (not corpus):
        both = "--keep and --corpus both say it" if corpus else "--keep FILE or --corpus FILE"
        raise UsageError("no tokens to keep", hint=both)
    file = find_gguf(file)
    where = id_map or (f"{os.path.splitext(out)[0]}.ids.tsv" if out else "")
    if out is not None and os.path.realpath(where) in map(os.path.realpath, (out, file)):
        raise UsageError("is the model itself", source=where)
    inputs = [*(corpus or []), *([keep] if keep else [])]
    for path in filter(None, (out, where)):
        if os.path.realpath(path) in map(os.path.realpath, inputs):
            raise UsageError("is the list of tokens to keep", source=path)
    if out is not None and not dry_run:  # before it takes minutes
        for path in (out, where):
            check_target(path, force=force)
    before = open_whole(file)
    warn_of_dropped_parts(before)
    texts = [text for name in corpus or [] for text in read_texts(name)]
    if keep is not None:
        size = len(metadata_array(before.metadata, "tokenizer.ggml.tokens", "string"))
        wanted = frequencies.read_vocabulary(keep, size)
    else:
        wanted = frequent_ids(file, texts, coverage)
    done = cut(file, wanted, multiple=multiple, texts=[*comparison.probe_texts(), *texts])
    sizes = [sum(tensor.n_bytes for tensor in before.tensors)]
    sizes.append(sum(one.n_bytes for one in done.draft.tensors.values()))
    if out is not None and not dry_run:
        text = _map(done, as_json=where.endswith(".json"))
        write_ggufs({where: text.encode(), out: done.draft.chunks()}, force=force)
    written = out if not dry_run else None
    if as_json:
        output.write_json(
            {
                "schema": "mtkit.trim/1",
                "written": written,
                "map": where if written else None,
                "ids_before": done.n_before,
                "ids": len(done.ids),
                "bytes_before": sizes[0],
                "bytes": sizes[1],
                "texts_checked": done.checked,
            }
        )
    elif output.is_terminal():
        from mtkit.commands.terminal import Screen, count_part, part
        from mtkit.commands.terminal import size_part as bytes_of

        screen = Screen()
        if written:
            screen.verdict(part("name", written), good=True)
        screen.facts(
            [
                ("ids", [count_part(done.n_before), " → ", count_part(len(done.ids))]),
                ("tensors", [bytes_of(sizes[0]), " → ", bytes_of(sizes[1])]),
                ("same tokens", [count_part(done.checked, "text")]),
                *([("map", [part("name", where)])] if written else []),
            ]
        )
    else:
        output.write_rows([(written or "", done.n_before, len(done.ids), *sizes, where)])


def _map(done: Trimmed, *, as_json: bool) -> str:
    """Return the map of ids as a file."""
    import json

    from mtkit.base.escape import printable

    rows = list(zip(range(len(done.ids)), done.ids, done.tokens, strict=True))
    if as_json:
        entries = [{"id": new, "old": old, "token": printable(token)} for new, old, token in rows]
        return json.dumps({"schema": "mtkit.trim-map/1", "ids": entries}, ensure_ascii=False) + "\n"
    return "".join(f"{new}\t{old}\t{output.cell(token)}\n" for new, old, token in rows)
