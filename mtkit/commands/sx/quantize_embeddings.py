"""``mtkit sx quantize-embeddings``: the table that is searched for ids like an unknown one."""

from __future__ import annotations

from typing import Annotated

import typer


def quantize_embeddings(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The GGUF model to speed up.")],
    folder: Annotated[
        str, typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the files.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    as_json: bool = False,
) -> None:
    """Write an int8 embedding table for id searches.

    The files are quant_embeddings.bin (int8, n_vocab x n_embd), scales.bin (float32, one per row)
    and quant_embeddings.json, which records their origin and hashes.

    \b
    Examples:
      mtkit sx quantize-embeddings model.gguf -o model-sx/
      mtkit generate -m model.gguf --draft small.gguf --sx-static-vocab vocab.txt \\
        --sx-quant-embd model-sx/quant_embeddings.bin --sx-scales model-sx/scales.bin
    """
    from mtkit.commands import output
    from mtkit.commands.named import model_named
    from mtkit.errors import UnsupportedError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.rows import Rows
    from mtkit.gguf.vocabulary_rows import EMBEDDING
    from mtkit.llm.speculative import semantic_index

    path = model_named(target)
    file = open_gguf(path)
    if EMBEDDING not in file.names:
        raise UnsupportedError(f"has no {EMBEDDING}", source=path)
    table = Rows(file, file.names[EMBEDDING])
    about = semantic_index.write(table, path, folder, force=force)
    if as_json:
        output.write_json(about)
    else:
        output.write(f"{folder}: {about['n_vocab']} x {about['n_embd']} of {about['tensor']}\n")
