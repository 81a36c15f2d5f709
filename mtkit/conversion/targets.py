"""Where the files of a conversion go."""

from __future__ import annotations

import os

from mtkit.sources import hub
from mtkit.sources.locate import TOKENIZER, shipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.formats.contract import Written


_FORMATS = (
    ("tekken.json", "tekken"),
    ("vocab.json", "vocab-merges"),
    ("merges.txt", "vocab-merges"),
    ("rwkv_vocab.txt", "rwkv"),
    ("vocab.txt", "wordpiece"),
    ("tokenizer.txt", "mnn-text"),
    (".json", "hf"),
    (".gguf", "gguf"),
    (".mtok", "mtok"),
    (".model", "spm"),
    (".tiktoken", "tiktoken"),
    (".bin", "llama2c"),
)
"""End of a file's name -> the format that it is called for; the first counts."""


def format_of(dst: str | os.PathLike[str] | None) -> str:
    """Return the format that the name of a file to be written says, or an empty text."""
    name = os.path.basename(os.fspath(dst or "")).lower()
    return next((format_name for end, format_name in _FORMATS if name.endswith(end)), "")


def target_paths(
    source: str, dst: str | os.PathLike[str] | None, written: Written
) -> dict[str, bytes]:
    """Return path -> content: beside the source, in the folder ``dst`` or at the file ``dst``.

    Several files go into a folder where ``dst`` has no suffix: their names are fixed, and in the
    folder around it they could belong to anything.
    """
    names = list(written.files)
    stem, folder = os.path.splitext(os.path.basename(source))[0], os.path.dirname(source)
    if source in ("", "-", shipped(TOKENIZER)) or hub.holds(source):
        stem, folder = "tokenizer", ""
    paths = [os.path.join(folder, _named(name, stem)) for name in names]
    if dst is not None:
        dst = os.fspath(dst)
        several = len(names) > 1 and not os.path.splitext(dst)[1] and not os.path.lexists(dst)
        if several or dst.endswith(("/", os.sep)) or os.path.isdir(dst):
            paths = [os.path.join(dst, _named(name, stem)) for name in names]
        else:
            stem, folder = os.path.splitext(os.path.basename(dst))[0], os.path.dirname(dst)
            paths = [dst, *(os.path.join(folder, _named(name, stem)) for name in names[1:])]
    return dict(zip(paths, written.files.values(), strict=True))


def _named(name: str, stem: str) -> str:
    return stem + name if name.startswith(".") else name


def make_folder(dst: str | os.PathLike[str] | None, target: str) -> None:
    """Make the folder that ``dst`` names; around a file that it names there has to be one."""
    folder = os.path.dirname(target)
    if dst is not None and folder and os.path.normpath(os.fspath(dst)) == os.path.normpath(folder):
        os.makedirs(folder, exist_ok=True)


def same_file(path: str, source: str) -> bool:
    """Tell whether two paths lead to one file that is there."""
    return os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source)
