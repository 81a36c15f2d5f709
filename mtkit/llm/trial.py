"""A model file is tried in a child process before it runs for the first time.

Where a file contradicts itself, llama.cpp asserts or reads beyond its arrays: either ends the
process, and no check of ours can know every such place. The child loads the file, maps it, and
computes a prompt and a token on the CPU as the run will; where layers are for GPUs, it builds the
graph without the weights, which need not fit the main memory. Where llama.cpp dies, other ways of
computing the same are tried: without repacked weights, then without flash attention. The cache
folder has a file for each file that passed, named by a hash of the processor, llama.cpp's library,
the settings, and header, size and time of every shard; it holds the way if that is another one.

``LoadSettings.trial`` or ``MTKIT_TRIAL=0`` leaves it out.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from mtkit.base import process
from mtkit.base.process import command_line
from mtkit.base.record import Record, replace
from mtkit.base.watch import HANG_SECONDS, Silence, restarts, say
from mtkit.errors import (
    FormatError,
    MtkitError,
    ResourceError,
    UnsupportedError,
    UsageError,
    system_message,
)
from mtkit.settings import ContextSettings
from mtkit.sources.locate import MODEL, shipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.gguf import GgufFile
    from mtkit.llm.header import ModelHeader
    from mtkit.settings import Flash, LoadSettings

_VERSION = 2
"""Of the trial: when it changes, every file is tried again."""
_SECONDS, _BYTES_A_SECOND = 10, 50_000_000
"""CPU time that a child may take: some 20 times what it usually does."""
_WALL = 20
"""Times its CPU time that a child may take by the wall clock, to wait for its disk."""
_ROOM = 1 << 30
"""Memory that it may take besides the size of the file, for vocabulary, context and computing."""
_MOST_REMEMBERED = 1000
_HUNG = -1000
"""In place of the exit code of a child that was ended because it hung; no signal has this number.
"""
_SENT = ("with SIGINT", "with SIGTERM", "with SIGHUP", "with SIGQUIT")
"""Ends that somebody else wanted: no fault of the file or of llama.cpp."""
KINDS = {
    kind.exit_code: kind for kind in (UsageError, FormatError, UnsupportedError, ResourceError)
}
_HINT = "the file is damaged, or this version of llama.cpp cannot run it"
_BROKEN = "reinstall llama-cpp-python, built for this processor"
_ABOUT = ("model name", "flags", "Features", "CPU part")
"""Lines of /proc/cpuinfo that say what is computed with."""


class Way(Record):
    """How a model is computed: what the settings ask for, or what is left where that kills."""

    repack: bool = True
    flash_attention: Flash = "on"
    kv_type: str = "f16"

    def others(self) -> Iterator[tuple[Way, str]]:
        """Yield ways that compute the same more slowly, with their names for people."""
        plain = replace(self, repack=False)
        if self.repack:
            yield plain, "without repacking (--no-repack)"
        if self.flash_attention != "off" and self.kv_type in ("f32", "f16", "bf16"):
            way = replace(plain, flash_attention="off")
            yield way, "without repacking and flash attention (--no-repack --flash-attention off)"


class Broken(ResourceError):
    """llama.cpp dies with a sound model, too."""


class _Death(Exception):
    """The child died of llama.cpp: how, doing what, and what it said."""

    def __init__(self, how: str, stage: str, message: str) -> None:
        super().__init__(how)
        self.how, self.stage, self.message = how, stage, message


def try_out(
    header: ModelHeader, settings: LoadSettings, context: ContextSettings | None = None
) -> Way:
    """Try a model file in a child process, unless it has passed before.

    Returns:
        The way in which it can be computed.
    """
    before, context = _file_stamps(header.files), context or ContextSettings()
    way = Way(settings.repack, context.flash_attention, context.kv_type)
    if not settings.trial or os.environ.get("MTKIT_TRIAL") == "0" or not _has_interpreter():
        return way
    weights = settings.gpu_layers == 0
    marker = _marker(header.files, before, way, weights=weights)
    names = {name: other for other, name in way.others()}
    try:
        with open(marker, encoding="ascii") as file:
            return names.get(file.read(), way)
    except OSError:
        pass
    trial = Trial(header, settings.backends, context.threads, weights=weights)
    try:
        passed, name = trial.find_way(way)
    except Broken as error:
        if not restarts():
            raise
        say(f"{error}; the server starts all the same")
        return way
    if passed is None:
        return way
    if _file_stamps(header.files) != before:
        raise UsageError(
            "was changed while it was tried", source=header.path, hint="wait until it is whole"
        )
    _remember(marker, name)
    if name:
        say(f"{header.path}: llama.cpp ended the test load here; computing {name}")
    return passed


def try_projector(header: ModelHeader, settings: LoadSettings, context: ContextSettings) -> None:
    """Try the projector of a model with it in a child process, unless it has passed before.

    Raises:
        UnsupportedError: It is of another model.
        FormatError: It ends llama.cpp.
    """
    assert header.projector is not None
    if not settings.trial or os.environ.get("MTKIT_TRIAL") == "0" or not _has_interpreter():
        return
    files, way = (*header.files, header.projector.file), Way(settings.repack)
    marker = _marker(files, _file_stamps(files), way, weights=True)
    if os.path.exists(marker):
        return
    trial = Trial(
        header, settings.backends, context.threads, weights=True, projector=header.projector.path
    )
    if trial.find_way(way)[0] is not None:
        _remember(marker, "")


def _file_stamps(files: Sequence[GgufFile]) -> list[tuple[int, int, int, int]]:
    """Return size, time and identity of every file."""
    from stat import S_ISREG

    stamps = []
    for file in files:
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


def processor() -> tuple[str, str]:
    """Return the name of the processor, and what it is and can do, as far as the system says it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = sorted({line for line in file if line.startswith(_ABOUT)})
    except OSError:
        import platform

        return platform.processor(), f"{platform.machine()} {platform.processor()}"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (names or ["unknown"])[0], "".join(lines)


def _marker(
    files: Sequence[GgufFile], stamps: list[tuple[int, int, int, int]], way: Way, *, weights: bool
) -> str:
    import hashlib

    from mtkit.llama import library_file

    library = os.stat(library_file())
    path = os.path.realpath(library_file())
    test = _VERSION, path, library.st_size, library.st_mtime_ns, weights, way, processor()[1]
    whole = hashlib.sha256(repr(test).encode())
    for file, (size, time_ns, *_) in zip(files, stamps, strict=True):
        head = file.data[: file.data_offset]
        whole.update(repr((size, time_ns, len(head))).encode())
        whole.update(head)
    return os.path.join(trial_folder(), whole.hexdigest())


def _remember(marker: str, name: str) -> None:
    """Make the file of a model that passed; a missing cache folder is not a fault."""
    with suppress(OSError):
        os.makedirs(trial_folder(), exist_ok=True)
        with open(marker, "w", encoding="ascii") as file:
            file.write(name)
        names = os.listdir(trial_folder())
        if len(names) > _MOST_REMEMBERED:
            paths = sorted(
                (os.path.join(trial_folder(), name) for name in names), key=os.path.getmtime
            )
            for path in paths[: _MOST_REMEMBERED // 4]:
                os.unlink(path)


class Trial:
    """The trial of a file: children that load it and compute, one after the other."""

    def __init__(
        self,
        header: ModelHeader,
        backends: str | None,
        threads: int | None,
        *,
        weights: bool,
        projector: str = "",
    ) -> None:
        from mtkit.llm.threads import cores

        self._projector = projector
        self._path, self._weights = header.path, "1" if weights else ""
        self._backends, self._threads = backends or "", str(threads or cores())
        self._size = sum(len(file.data) for file in header.files)
        if projector and header.projector is not None:
            self._size += len(header.projector.file.data)

    def find_way(self, own: Way) -> tuple[Way | None, str]:
        """Return the first way that works, with its name, empty for the one asked for.

        The way is None where there can be no child.
        """
        first: _Death | None = None
        for way, name in ((own, ""), *(() if self._projector else own.others())):
            try:
                passes = self._passes(self._path, self._size, way, self._projector)
            except _Death as death:
                first = first or death
            else:
                return (way if passes else None), name
        assert first is not None
        raise self._error(first, own)

    def _passes(self, path: str, size: int, way: Way, projector: str = "") -> bool:
        """Run the child; returns False where there can be none."""
        seconds = _SECONDS * (2 if projector else 1) + size // _BYTES_A_SECOND
        room = _ROOM + size * (2 if way.repack else 1)
        outcome = run_child(
            (
                path, projector, self._backends, self._weights, self._threads, str(seconds),
                str(room),
                "1" if way.repack else "", way.flash_attention, way.kv_type,
            ),
            _WALL * seconds,
        )  # fmt: skip
        if outcome is None:
            raise _timeout_error(path, _WALL * seconds)
        code, stages, raw = outcome
        message = raw.decode("utf-8", "replace").strip()
        if code in KINDS and message:
            raise KINDS[code](message.removeprefix("mtkit: "))
        stage = stages.decode("ascii", "replace").split("\n")[-2:][0]
        if code == 1 and not stages:
            return False
        if code or stage != "done":
            raise _death(projector or path, code, stage, message, seconds)
        return True

    def _error(self, death: _Death, way: Way) -> Exception:
        """Return the error for a file with which llama.cpp dies in every way: whose fault it is."""
        sound, path = shipped(MODEL), self._projector or self._path
        try:
            self._passes(sound, os.path.getsize(sound), way)
        except (_Death, MtkitError, OSError):
            what = f"{death.how} while {death.stage}, and so it does with a sound model"
            return Broken(f"llama.cpp {what}", source=path, hint=_BROKEN)
        reason = f": {' '.join(death.message.split())}" if death.message else ""
        what = death.how.replace("ended", "ends llama.cpp", 1)
        return FormatError(f"{what} while {death.stage}{reason}", source=path, hint=_HINT)


def run_child(arguments: tuple[str, ...], seconds: int) -> tuple[int, bytes, bytes] | None:
    """Run ``llama.trial.main`` in a new process.

    Returns:
        Its exit code (negative for a signal, 1 where there can be no process; ``_HUNG``), stdout
        and stderr; None where it does not end in time.
    """
    import subprocess

    try:
        child = subprocess.Popen(  # noqa: S603  this interpreter
            command_line("mtkit.llama.trial", arguments),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={"OMP_WAIT_POLICY": "passive", **os.environ},
        )  # fmt: skip
    except OSError:
        return 1, b"", b""
    silence, has_hung = Silence(), False
    with child:
        try:
            for _ in range(seconds):
                with suppress(subprocess.TimeoutExpired):
                    outputs = child.communicate(timeout=1)
                    return _HUNG if has_hung else child.returncode, *outputs
                if silence.lasts([child.pid]):
                    has_hung = True
                    child.kill()
        finally:
            child.kill()
    return None


def exit_name(code: int) -> str:
    """Return how a process ended: with which signal, or which exit code."""
    import signal

    try:
        return f"with {signal.Signals(-code).name}"
    except ValueError:
        return f"with exit code {code:#x}"


def _death(path: str, code: int, stage: str, message: str, seconds: int) -> Exception:
    """Return what is raised for a child that did not end by itself."""
    if code == _HUNG:
        what = f"llama.cpp hung for {HANG_SECONDS} s while {stage}"
        return ResourceError(what, source=path, hint=_BROKEN)
    name = exit_name(code)
    if name == "with SIGXCPU":
        return _timeout_error(path, seconds)
    if name == "with SIGKILL":
        return ResourceError(
            f"llama.cpp was killed while {stage}", source=path, hint="it may have run out of memory"
        )
    if name in _SENT:
        what = f"the test load was ended {name} while {stage}"
        return ResourceError(what, source=path, hint="run the command again")
    return _Death(f"ended {name}", stage, message)


def _timeout_error(path: str, seconds: int) -> Exception:
    return ResourceError(
        f"llama.cpp does not load it and compute a token within {seconds} s", source=path,
        hint="MTKIT_TRIAL=0 skips the test load",
    )  # fmt: skip
