"""The file of a tokenizer in the forms that libraries read."""

from __future__ import annotations

import os

from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.tokenizer.tokenizer import Tokenizer

_BESIDE = {"spm": ("tokenizer.model", "spiece.model")}


def files_of(tokenizer: Tokenizer, folder: str) -> dict[str, str]:
    """Return format -> path: the file itself, what lies beside it, and what is written of it.

    The .mtok has tables, which is how mtkit loads fastest. Whether ids survive in another format
    is not asked here: those of every library are compared before it is measured.
    """
    from mtkit.formats import mtok, tiktoken
    from mtkit.formats.contract import WriteOptions

    found = {tokenizer.format_name: tokenizer.source}
    for name, beside in _BESIDE.items():
        for file in beside:
            path = os.path.join(os.path.dirname(tokenizer.source), file)
            if os.path.exists(path):
                found.setdefault(name, path)
    for module, values in ((mtok, (("tables", "yes"),)), (tiktoken, ())):
        if tokenizer.format_name == module.NAME == mtok.NAME:
            continue  # the file itself is measured
        try:
            files = module.write(tokenizer.spec, WriteOptions(values=values)).files
        except UnsupportedError:
            continue
        own = os.path.join(folder, module.NAME)
        os.makedirs(own)
        for name, content in files.items():
            with open(os.path.join(own, name), "wb") as out:
                out.write(content)
        found[module.NAME] = os.path.join(own, next(iter(files)))
    return found
