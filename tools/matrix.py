"""Every stored tokenizer converted to every format and run by the format's own library.

A row a source, a column a target: ``equal/compared``, ``-`` where the target refuses by name,
``UNNAMED`` where something differs that no listed loss foresees; below, each of these with its
first text. Exit status 1 if there is one.

    python -m tools.matrix --only llama-2,gpt2 --to gguf
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

ENDINGS = ("tokenizer.json", "tekken.json", ".model", ".tiktoken", ".bin", ".txt")
NO_TOKENIZER = ("llama-3/tokenizer.tiktoken",)
"""Ranks without a pattern."""


def sources(only: set[str]) -> Iterator[tuple[str, Path]]:
    """Yield name and path of each stored tokenizer and GGUF vocabulary."""
    support = importlib.import_module("support")
    for folder in sorted((support.SHARED / "tokenizers" / "tokenizers").iterdir()):
        names = sorted(file.name.removesuffix(".xz") for file in folder.iterdir())
        for file in names:
            name = f"{folder.name}/{file}"
            if file.endswith(ENDINGS) and name not in NO_TOKENIZER and wanted(folder.name, only):
                yield name, support.shared_tokenizer(folder.name) / file
    for name in support.VOCABULARIES:
        if wanted(name, only):
            yield f"{name}.gguf", support.shared(f"gguf-vocab/ggml-vocab-{name}.gguf")


def wanted(name: str, only: set[str]) -> bool:
    """Tell whether a source was asked for."""
    return not only or name in only


def main() -> int:
    """Convert, compare and print; 1 where something differs that no loss foresees."""
    import mtkit
    from mtkit.formats import FORMATS, get_format

    writable = [name for name in FORMATS if hasattr(get_format(name), "write")]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="names of sources, with commas between them")
    parser.add_argument("--to", default=",".join(writable), help="names of formats")
    parser.add_argument("-v", "--verbose", action="store_true", help="why something is refused")
    asked = parser.parse_args()
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
    matrix = importlib.import_module("matrix")
    targets = asked.to.split(",")
    only = {name for name in asked.only.split(",") if name}
    rows = texts = named = 0
    found, began = [], time.monotonic()
    sys.stdout.write("".join(f"{name:>14}" for name in targets) + "  source\n")
    for name, path in sources(only):
        tokenizer = mtkit.load(path)
        cells = [(to, matrix.cell(tokenizer, to)) for to in targets]
        sys.stdout.write("".join(f"{cell!s:>14}" for _, cell in cells) + f"  {name}\n")
        sys.stdout.flush()
        rows += 1
        texts += sum(cell.texts for _, cell in cells)
        named += sum(cell.named for _, cell in cells)
        for to, cell in cells:
            found += [f"{name} to {to}: {line}" for line in cell.unnamed]
            if asked.verbose and cell.refused:
                sys.stdout.write(f"  {to}: {cell.refused}\n")
    seconds = time.monotonic() - began
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.stdout.write(
        f"{rows} sources, {len(targets)} formats, {texts} comparisons, {named} differences named, "
        f"{len(found)} not, {seconds:.0f} s\n"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
