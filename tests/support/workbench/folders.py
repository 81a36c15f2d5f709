"""Model folders of every architecture with one of their files changed, converted up to the disk."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from file_uses import clear
from model_folders import write_folder
from mutants import byte_level, json_level

from mtkit.architectures import architectures
from mtkit.base.record import Record
from mtkit.checkpoints import folder_files, model_folder
from mtkit.checks import check
from mtkit.checks.folder import is_model
from mtkit.commands.inspect import checkpoint
from mtkit.conversion import model_keys
from mtkit.conversion.folder_report import folder_report
from mtkit.conversion.model import plan_gguf
from mtkit.conversion.model_tensors import TYPES
from mtkit.errors import MtkitError

if TYPE_CHECKING:
    from random import Random

SHOWN: Any = {
    "tensors": False, "in_full": False, "pattern": None, "sort": None, "quiet": False,
}  # fmt: skip
EXTRA = (0, 7, 1 << 20, 1 << 62, (1 << 64) - 1)


class Mutant(Record):
    """A folder with changed files.

    Attributes:
        whole: The folder that was changed.
        files: Name of a file -> its bytes; those of the others are as they were.
    """

    whole: Path
    files: dict[str, bytes]


@cache
def root() -> Path:
    path = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@cache
def _wholes() -> tuple[Path, ...]:
    """Write a folder of each class, of one file or of two with their index."""
    made = []
    for number, name in enumerate(architectures()):
        try:
            path = write_folder(root() / name, name, tokenizer="", files=1 + number % 2)
        except MtkitError:  # it needs fields of its own; the cases of hf-models have them
            continue
        made.append(path)
    return tuple(made)


def mutant(rng: Random) -> tuple[str, Mutant]:
    """Change config.json, mostly; or the index, a header, or bytes of any file."""
    whole = rng.choice(_wholes())
    names = sorted(path.name for path in whole.iterdir())
    name = folder_files.MODEL_CONFIG if rng.random() < 0.6 else rng.choice(names)
    data = (whole / name).read_bytes()
    if name.endswith(".json"):
        level = rng.choice((json_level.mutate, json_level.mutate, byte_level.mutate))
        data = level(rng, data)
        if rng.random() < 0.25:
            data = level(rng, data)
    else:
        data = mutate_header(rng, data)
    return f"{whole.name} {name}", Mutant(whole, {name: data})


def mutate_header(rng: Random, data: bytes) -> bytes:
    length = int.from_bytes(data[:8], "little")
    if rng.random() < 0.2:
        return byte_level.mutate(rng, data)
    header = json_level.mutate(rng, data[8 : 8 + length])
    said = len(header) if rng.random() < 0.9 else rng.choice(EXTRA)
    return said.to_bytes(8, "little") + header + data[8 + length :]


def use(made: Mutant, rng: Random) -> str:
    """Plan the conversion, and make every tensor of it."""
    used = root() / "used"
    shutil.rmtree(used, ignore_errors=True)
    used.mkdir()
    for path in made.whole.iterdir():
        if path.name not in made.files:
            (used / path.name).symlink_to(path)
    for name, data in made.files.items():
        (used / name).write_bytes(data)
    model_folder.sniff(str(used))
    became = []
    _unmap(str(used))
    with clear():
        plan = plan_gguf(str(used), rng.choice(("auto", *TYPES)))
        tensors = plan.tensors()
        model_keys.name_keys(str(used), tensors, None)
        for one in tensors:
            size = sum(memoryview(piece).nbytes for piece in one.pieces())
            assert size == one.n_bytes, one.name
        became.append("read")
    _look(str(used), is_read=bool(became))
    return next(iter(became), "refused")


def _unmap(path: str) -> None:
    """Let a large folder go: one of 38 MB that every reading maps anew fills a case's limit."""
    if sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path)) > 1 << 24:
        gc.collect()


def _look(path: str, *, is_read: bool) -> None:
    """Check and show it: what conversion refuses is found, and shown with the reason."""
    found = check(path)
    severe = [one for one in found.findings if one.rule.severity != "note"]
    if not is_read and is_model(path):
        assert severe or model_folder.NO_WEIGHTS in {one.rule for one in found.findings}
    for one in found.findings:
        assert "\n" not in str(one), repr(str(one))
    _unmap(path)
    if not model_folder.sniff(path):
        return
    with clear():  # the whole GGUF is mapped, which a limit of memory may not allow
        report = folder_report(path)
        assert (report.plan is not None) == is_read or report.refused is not None
        checkpoint.show_folder(path, **SHOWN, as_json=False)
        checkpoint.show_folder(path, **SHOWN, as_json=True)
