"""What is measured with: texts, and the file of a tokenizer in the forms that libraries read."""

from __future__ import annotations

import os

from mtkit.base.binary import standard_input
from mtkit.errors import UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.tokenizer.tokenizer import Tokenizer

_BESIDE = {"spm": ("tokenizer.model", "spiece.model")}
_MODULES = ("argparse", "ast", "calendar", "datetime", "decimal", "difflib", "inspect", "pickle",
            "tarfile", "turtle", "typing", "uuid", "zipfile")  # fmt: skip


def texts_of(paths: Sequence[str], size: int) -> dict[str, str]:
    """Return the beginning of each file, "-" for a pipe, by its name, in whole characters.

    Raises:
        UsageError: A file cannot be read, is empty or not UTF-8.
    """
    from codecs import getincrementaldecoder

    found: dict[str, str] = {}
    for path in paths:
        try:
            with standard_input() if path == "-" else open(path, "rb") as file:
                data = file.read(size)
            whole = getincrementaldecoder("utf-8")().decode(data, len(data) < size)
        except OSError as error:
            raise UsageError(error.strerror or str(error), source=path) from None
        except UnicodeDecodeError as error:
            what = "is not valid UTF-8"
            raise UsageError(what, source=path, offset=error.start, field="text") from None
        if not whole:
            raise UsageError("is empty", source=path)
        name = "stdin" if path == "-" else os.path.splitext(os.path.basename(path))[0]
        found[path if name in found else name] = whole
    return found or _of_python(size)


def _of_python(size: int) -> dict[str, str]:
    """Return English and code that come with Python."""
    from importlib.util import find_spec

    code = ""
    for name in _MODULES:
        spec = find_spec(name)
        if spec is not None and spec.origin and spec.origin.endswith(".py") and len(code) < size:
            with open(spec.origin, encoding="utf-8") as file:
                code += file.read()
    found = {"code": code[:size]}
    if find_spec("pydoc_data") is not None:
        from pydoc_data.topics import topics

        found = {"english": "\n".join(topics.values())[:size], **found}
    return {name: text for name, text in found.items() if text}


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
