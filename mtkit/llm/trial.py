"""A model file is tried in a child process before it runs for the first time.

Where a file contradicts itself, llama.cpp asserts or reads beyond its arrays: either ends the
process, and no check of ours can know every such place. The child loads the file, maps it, and
computes a prompt and a token on the CPU; where layers are for GPUs, it builds the graph without the
weights, which need not fit the main memory. The cache folder has an empty file for each file that
passed, named by a hash of llama.cpp's library and of header, size and time of every shard.

``LoadSettings.trial`` or ``MTKIT_TRIAL=0`` leaves it out.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from mtkit.base import process
from mtkit.base.process import command_line
from mtkit.errors import FormatError, ResourceError, UnsupportedError, UsageError, system_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.llm.header import ModelHeader
    from mtkit.settings import LoadSettings

_VERSION = 1
"""Of the trial: when it changes, every file is tried again."""
_SECONDS, _BYTES_A_SECOND = 10, 50_000_000
"""CPU time that a child may take: some 20 times what it usually does."""
_WALL = 20
"""Times its CPU time that a child may take by the wall clock, to wait for its disk."""
_ROOM = 1 << 30
"""Memory that it may take besides the size of the file, for vocabulary, context and computing."""
_MOST_REMEMBERED = 1000
KINDS = {
    kind.exit_code: kind for kind in (UsageError, FormatError, UnsupportedError, ResourceError)
}
_HINT = "the file is damaged, or this version of llama.cpp cannot run it"


def try_out(header: ModelHeader, settings: LoadSettings) -> None:
    """Try a model file in a child process, unless it has passed before."""
    before = _file_stamps(header)
    if not settings.trial or os.environ.get("MTKIT_TRIAL") == "0" or not _has_interpreter():
        return
    weights = settings.gpu_layers == 0
    marker = _marker(header, before, weights=weights)
    if os.path.exists(marker):
        return
    if not _passes_trial(header, settings.backends, weights=weights):
        return
    if _file_stamps(header) != before:
        raise UsageError(
            "was changed while it was tried", source=header.path, hint="wait until it is whole"
        )
    _remember(marker)


def _file_stamps(header: ModelHeader) -> list[tuple[int, int, int, int]]:
    """Return size, time and identity of every file."""
    from stat import S_ISREG

    stamps = []
    for file in header.files:
        try:
            now = os.stat(file.name)
        except OSError as error:
            raise UsageError(system_message(error), source=file.name) from None
        if not S_ISREG(now.st_mode):
            raise UsageError(
                "is a pipe or a device, models run from files",
                source=file.name,
                hint="save it to a file",
            )
        stamps.append((now.st_size, now.st_mtime_ns, now.st_dev, now.st_ino))
    return stamps


def _has_interpreter() -> bool:
    """Whether a child can be started: a program that embeds Python would start itself."""
    name = os.path.basename(sys.executable or "").lower()
    return name.startswith(("python", "pypy")) and not hasattr(sys, "frozen")


def trial_folder() -> str:
    """Return the folder of the markers of files that passed."""
    return process.cache_folder("tried")


def _marker(header: ModelHeader, stamps: list[tuple[int, int, int, int]], *, weights: bool) -> str:
    import hashlib

    from mtkit.llama import library_file

    library = os.stat(library_file())
    test = _VERSION, library.st_size, library.st_mtime_ns, weights
    whole = hashlib.sha256(repr(test).encode())
    for file, (size, time_ns, *_) in zip(header.files, stamps, strict=True):
        head = file.data[: file.data_offset]
        whole.update(repr((size, time_ns, len(head))).encode())
        whole.update(head)
    return os.path.join(trial_folder(), whole.hexdigest())


def _remember(marker: str) -> None:
    """Make the empty file of a model that passed; a missing cache folder is not a fault."""
    with suppress(OSError):
        os.makedirs(trial_folder(), exist_ok=True)
        with open(marker, "ab"):
            pass
        names = os.listdir(trial_folder())
        if len(names) > _MOST_REMEMBERED:
            paths = sorted(
                (os.path.join(trial_folder(), name) for name in names), key=os.path.getmtime
            )
            for path in paths[: _MOST_REMEMBERED // 4]:
                os.unlink(path)


def _passes_trial(header: ModelHeader, backends: str | None, *, weights: bool) -> bool:
    """Run the child; returns False where there can be none."""
    from mtkit.llm.threads import cores

    size = sum(len(file.data) for file in header.files)
    seconds = _SECONDS + size // _BYTES_A_SECOND
    outcome = run_child(
        (
            header.path,
            backends or "",
            "1" if weights else "",
            str(cores()),
            str(seconds),
            str(_ROOM + size),
        ),
        _WALL * seconds,
    )
    if outcome is None:
        raise _timeout_error(header.path, _WALL * seconds)
    code, stages, raw = outcome
    message = raw.decode("utf-8", "replace").strip()
    if code in KINDS:
        raise KINDS[code](message.removeprefix("mtkit: "))
    stage = stages.decode("ascii", "replace").split("\n")[-2:][0]
    if code not in (0, 1) or (code == 0 and stage != "done"):
        raise _crash_error(header.path, code, stage, message, seconds)
    return not code


def run_child(arguments: tuple[str, ...], seconds: int) -> tuple[int, bytes, bytes] | None:
    """Run ``llama.trial.main`` in a new process.

    Returns:
        Its exit code (negative for a signal, 1 where there can be no process), stdout and stderr;
        None where it does not end in time.
    """
    import subprocess

    try:
        child = subprocess.run(  # noqa: S603  this interpreter
            command_line("mtkit.llama.trial", arguments),
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=seconds,
            env={"OMP_WAIT_POLICY": "passive", **os.environ},
        )  # fmt: skip
    except OSError:
        return 1, b"", b""
    except subprocess.TimeoutExpired:
        return None
    return child.returncode, child.stdout, child.stderr


def _crash_error(path: str, code: int, stage: str, message: str, seconds: int) -> Exception:
    """Return the error for a child that a signal ended."""
    import signal

    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"exit code {code:#x}"
    if name == "SIGXCPU":
        return _timeout_error(path, seconds)
    if name == "SIGKILL":
        return ResourceError(
            f"llama.cpp was killed while {stage}", source=path, hint="it may have run out of memory"
        )
    reason = f": {' '.join(message.split())}" if message else ""
    return FormatError(f"ends llama.cpp with {name} while {stage}{reason}", source=path, hint=_HINT)


def _timeout_error(path: str, seconds: int) -> Exception:
    return ResourceError(
        f"llama.cpp does not load it and compute a token within {seconds} s", source=path,
        hint="MTKIT_TRIAL=0 skips the test load",
    )  # fmt: skip
