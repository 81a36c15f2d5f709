"""``mtkit sx quantize-embeddings``: the table that is searched for ids like an unknown one."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands.options import AS_JSON  # noqa: TC001  typer reads it


def quantize_embeddings(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The GGUF model to speed up.")],
    folder: Annotated[
        str, typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the files.")
    ],
    neighbors: Annotated[
        int | None,
        typer.Option(
            "--neighbors", metavar="N", min=1, max=65536, help="Also find N neighbors of each id."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    as_json: AS_JSON = False,
) -> None:
    """Write an int8 embedding table for id searches.

    The files are quant_embeddings.bin (int8, n_vocab x n_embd), scales.bin (float32, one per row)
    and quant_embeddings.json, which records their origin and hashes. --neighbors searches for the
    neighbors of every id now, which takes minutes for large vocabularies, and writes neighbors.bin
    (int32 ids, then float32 cosines, n_vocab x N each), which replaces the other two.

    \b
    Examples:
      mtkit sx quantize-embeddings model.gguf -o model-sx/
      mtkit generate -m model.gguf --draft small.gguf --sx-static-vocab vocab.txt \\
        --sx-quant-embd model-sx/quant_embeddings.bin --sx-scales model-sx/scales.bin
      mtkit sx quantize-embeddings model.gguf -o model-sx/ --neighbors 50
    """
    from mtkit.commands import output
    from mtkit.commands.named import model_named
    from mtkit.errors import UnsupportedError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.rows import Rows
    from mtkit.gguf.vocabulary_rows import EMBEDDING
    from mtkit.llm.speculative import neighbors as before
    from mtkit.llm.speculative import semantic_index

    path = model_named(target)
    file = open_gguf(path)
    if EMBEDDING not in file.names:
        raise UnsupportedError(f"has no {EMBEDDING}", source=path)
    table = Rows(file, file.names[EMBEDDING])
    about = semantic_index.write(table, path, folder, force=force)
    if neighbors is not None:
        from mtkit.commands.progress import Progress

        about["neighbors"] = before.write(
            table, about, folder, neighbors, force=force, progress=Progress("searching").show
        )
    if as_json:
        output.write_json(about)
    else:
        output.write(f"{folder}: {about['n_vocab']} x {about['n_embd']} of {about['tensor']}\n")
