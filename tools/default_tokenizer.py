"""Make mtkit/data/default.mtok, the tokenizer of ``mtkit encode`` without ``-t``.

The source is a folder with the tokenizer.json that was trained for this project (NOTICE names the
texts). The engine's tables are in it, so that nothing is computed at start-up. The same folder
gives the same bytes; without a folder the tables are made anew from the specification in the file:

    python -m tools.default_tokenizer [FOLDER]
"""

from __future__ import annotations

import os
import sys

from mtkit.base.binary import Source
from mtkit.base.files import write_files
from mtkit.formats import hf, mtok
from mtkit.formats.contract import WriteOptions

TARGET = os.path.join(os.path.dirname(os.path.dirname(__file__)), "mtkit", "data", "default.mtok")


def content(folder: str | None) -> bytes:
    """Return what the file must be."""
    if folder is None:
        spec = mtok.read(Source.open(TARGET), {}).spec
    else:
        spec = hf.read(Source.open(os.path.join(folder, "tokenizer.json")), {}).spec
    return mtok.write(spec, WriteOptions(values=(("tables", "yes"),))).files[".mtok"]


def main(arguments: list[str]) -> int:
    """Write the file."""
    if len(arguments) > 1:
        print("usage: python -m tools.default_tokenizer [FOLDER]", file=sys.stderr)
        return 2
    data = content(arguments[0] if arguments else None)
    write_files({TARGET: data}, force=True)
    print(f"{TARGET}: {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
