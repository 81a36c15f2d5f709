"""``mtkit sx prune``: cut a draft to a static vocabulary."""

from __future__ import annotations

from typing import Annotated

import typer


def prune(
    draft: Annotated[str, typer.Argument(metavar="DRAFT", help="Draft model, as GGUF.")],
    vocabulary: Annotated[
        str, typer.Option("--vocab", metavar="FILE", help="File with ids, as sx vocab writes it.")
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="File next to DRAFT; default: DRAFT-N.gguf."
        ),
    ] = None,
    size: Annotated[
        int | None, typer.Option("-n", metavar="N", help="Use only the first N ids.")
    ] = None,
    force: bool = False,
) -> None:
    """Reduce a draft model to the ids of a vocab.txt.

    Rows of the embedding and the output head are copied unchanged. The new file records the
    original ids and is used with DRAFT next to it, from which the rows of all other ids are read.
    (--sx-static-vocab does the same with a copy in the cache folder.)

    \b
    Examples:
      mtkit sx prune small.gguf --vocab vocab.txt
      mtkit sx prune small.gguf --vocab vocab.txt -n 16384 -o small-16k.gguf
    """
    import os

    from mtkit.commands import output
    from mtkit.commands.named import model_named
    from mtkit.errors import UsageError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.vocabulary_rows import EMBEDDING, ROWS_MULTIPLE
    from mtkit.llm.speculative import static_vocabulary
    from mtkit.llm.speculative.prune import prune as write

    path = model_named(draft)
    tensor = open_gguf(path).names.get(EMBEDDING)
    ids = static_vocabulary.read(vocabulary, tensor.shape[-1] if tensor else 0)
    if size is not None and not 0 < size <= len(ids):
        raise UsageError(f"-n {size}: {vocabulary} has {len(ids)} ids")
    ids = ids[:size]
    target = target or f"{os.path.splitext(path)[0]}-{len(ids)}.gguf"
    if os.path.dirname(os.path.abspath(target)) != os.path.dirname(os.path.abspath(path)):
        raise UsageError(
            "is not in the folder of the draft model", source=target,
            hint="the two files are used together",
        )  # fmt: skip
    write(path, ids, target, force=force)
    output.write(
        f"{target}: {output.grouped(len(ids))} ids, {output.size(os.path.getsize(target))}\n"
    )
    if len(ids) % ROWS_MULTIPLE:
        output.warn(target, [f"{ROWS_MULTIPLE} does not divide {len(ids)}: logits may be rounded"])
