"""A model quantized by llama.cpp, in a process of its own: ``mtkit quantize``."""

from __future__ import annotations

import os
from contextlib import ExitStack

from mtkit.base.process import command
from mtkit.base.whole_files import WholeFiles
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.draft import refuse_unfinished
from mtkit.gguf.in_place import settle
from mtkit.gguf.joined import open_whole
from mtkit.gguf.types import MIXES
from mtkit.llm.importance import temporary_matrix
from mtkit.llm.tensor_kinds import TensorKinds
from mtkit.llm.trial import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtkit.gguf import GgufFile

TYPES = MIXES
SHORT = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M", "MXFP4": "MXFP4_MOE"}
"""Names of llama-quantize besides -> ours."""
_FLOATS = frozenset({"F32", "F16", "BF16", "F64"})


def file_type(name: str) -> int:
    """Return the number of a mix.

    Raises:
        UsageError: There is none of that name.
    """
    from difflib import get_close_matches

    wanted = SHORT.get(name.upper(), name.upper())
    if wanted not in TYPES:
        near = get_close_matches(wanted, TYPES, n=1)
        known = f"is it {near[0]}?" if near else f"one of {' '.join(TYPES)}"
        raise UsageError(f"--type {name!r} is not known", hint=known)
    return TYPES[wanted]


def quantized_types(file: GgufFile) -> list[str]:
    """Return the types of matrices that are already quantized, by name."""
    found = {t.type.name for t in file.tensors if t.type.block > 1 and len(t.shape) > 1}
    return sorted(found)


def quantize(
    source: str,
    target: str,
    kind: int,
    *,
    pure: bool = False,
    kinds: TensorKinds | None = None,
    imatrix: str | None = None,
    imatrix_from: Sequence[tuple[str, bytes]] = (),
    allow_requantize: bool = False,
    threads: int = 0,
    dry_run: bool = False,
    force: bool = False,
    progress: Callable[[float], object] = lambda _: None,
    imatrix_progress: Callable[[float], None] = lambda _: None,
    name: str = "",
) -> None:
    """Write a quantized model; it appears whole or not at all.

    Args:
        source: The model, of a set its first file.
        target: Where to write.
        kind: The mix, as ``general.file_type`` numbers them.
        pure: All matrices in one type, without the mix.
        kinds: Types of single tensors.
        imatrix: A GGUF of llama-imatrix.
        imatrix_from: Instead of one: name and content of the texts to make it from.
        allow_requantize: Quantize what is already quantized.
        threads: 0 for as many as there are cores.
        dry_run: Let llama.cpp go through the model and write nothing.
        force: Replace a file that exists.
        progress: Is told how much is done, 0 to 1.
        imatrix_progress: The same of the importance matrix.
        name: What messages call the model; empty: its path.

    Raises:
        UsageError: The model is already quantized, an edit of it was cut short, the target exists,
            or a text is too short.
        FormatError: The model or the importance matrix is damaged.
        UnsupportedError: llama.cpp cannot quantize it so.
        ResourceError: The disk is full.
    """
    file = open_whole(source)
    _check(file, source, allow_requantize=allow_requantize)
    if imatrix is not None:
        open_gguf(imatrix)
    job = {
        "source": source, "name": name or source, "target": target, "path": target,
        "type": kind, "pure": pure, "imatrix": imatrix, "imatrix_name": imatrix,
        "requantize": allow_requantize, "dry_run": dry_run,
        "threads": threads or os.cpu_count() or 1, **(kinds or TensorKinds()).numbers(),
    }  # fmt: skip
    with ExitStack() as stack:
        new = None
        if not dry_run:
            settle(target, force=force)
            new = stack.enter_context(WholeFiles([target], force=force))
            job["target"] = new.part(target)  # a folder that takes none is named before the work
        if imatrix_from:
            made = temporary_matrix(source, imatrix_from, progress=imatrix_progress)
            job["imatrix"] = stack.enter_context(made)
        _run(job, progress)
        if new is not None:
            _compare(file, open_gguf(str(job["target"])))
            new.appear()


def _check(file: GgufFile, source: str, *, allow_requantize: bool) -> None:
    refuse_unfinished(file)
    if not file.tensors:
        raise UsageError("holds no tensors to quantize", source=source)
    found = quantized_types(file)
    if found and not allow_requantize:
        raise UsageError(
            f"is already quantized ({', '.join(found)}), and quantizing twice loses more",
            source=source,
            hint="use the original model, or add --allow-requantize",
        )


def _run(job: dict[str, object], progress: Callable[[float], object]) -> None:
    """Run the child.

    Raises:
        MtkitError: It fails.
    """
    import json
    import subprocess
    import tempfile

    source = str(job["source"])
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603  this interpreter
            command("mtkit.llama.quantizer", (json.dumps(job),)),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            env={"OMP_WAIT_POLICY": "passive", **os.environ},
        ) as process,
    ):  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                done, total = map(int, line.split())
                progress(min(done - 1, total) / max(total, 1))
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            progress(1)
        errors.seek(0)
        said = " ".join(errors.read().decode("utf-8", "replace").split())
    if code in KINDS:
        raise KINDS[code](said.removeprefix("mtkit: "))
    if code < 0 or code:
        raise FormatError(
            f"ends llama.cpp's quantizer (code {code}){': ' * bool(said)}{said}", source=source,
            hint="mtkit check FILE --deep finds the problem",
        )  # fmt: skip


def _compare(before: GgufFile, after: GgufFile) -> None:
    """Check that the new model has the tensors of the old one.

    Raises:
        UnsupportedError: It has others.
    """
    shapes = [{t.name: t.shape for t in file.tensors} for file in (before, after)]
    if shapes[0] != shapes[1]:
        raise UnsupportedError("llama.cpp's quantizer left out tensors", source=before.name)
