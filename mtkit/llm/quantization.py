"""A model quantized by llama.cpp, in a process of its own: ``mtkit quantize``.

``TensorKinds``: the type of single tensors, as ``--tensor-type`` names them.
Source: tools/quantize/quantize.cpp of llama.cpp (``parse_tensor_type``); llama-quant.cpp, where the
first pattern that is found in the name of a tensor counts, and the types of head and embedding
before all patterns.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack

from mtkit.base.files import WholeFiles
from mtkit.base.process import command_line
from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.draft import refuse_unfinished
from mtkit.gguf.in_place import settle_journal
from mtkit.gguf.shards import open_whole
from mtkit.gguf.types import MIXES, TENSOR_TYPES
from mtkit.llm.importance import temporary_matrix
from mtkit.llm.trial import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mtkit.gguf import GgufFile


_NOT_WRITTEN = frozenset({"I8", "I16", "I32", "I64", "F64", "Q8_1", "Q8_K"})
"""Types that no weights are quantized to."""


_LEAST_DIMENSIONS = 2
"""A tensor of fewer is not quantized by llama.cpp."""


class TensorKinds(Record):
    """Types of single tensors, in place of what the mix says.

    Attributes:
        tensors: Each PATTERN=TYPE; a pattern matches anywhere in a name.
    """

    tensors: Sequence[str] = ()
    output: str = ""
    embedding: str = ""

    def numbers(self) -> dict[str, object]:
        """Return llama.cpp's arguments: patterns with the numbers of their types, and two more."""
        return {
            "tensor_types": [
                (pattern.lower(), _number(kind, "--tensor-type"))
                for pattern, kind in map(_halves, self.tensors)
            ],
            "output_type": self.output and _number(self.output, "--output-tensor-type"),
            "embedding_type": self.embedding and _number(self.embedding, "--token-embedding-type"),
        }

    def without_effect(self, file: GgufFile) -> Iterator[str]:
        """Yield what to say of each pattern that matches no tensor, or none that is quantized."""
        for text in self.tensors:
            pattern = _halves(text)[0].lower()
            try:
                matches = [tensor for tensor in file.tensors if re.search(pattern, tensor.name)]
            except re.error:
                continue  # llama.cpp has regular expressions of its own
            if not matches:
                yield f"no tensor's name has {pattern!r}"
            elif all(len(tensor.shape) < _LEAST_DIMENSIONS for tensor in matches):
                first = matches[0]
                yield f"{first.name} has one dimension and stays {first.type.name}: {pattern!r}"


def _halves(text: str) -> tuple[str, str]:
    pattern, sign, kind = text.partition("=")
    if not pattern or not sign:
        what = f"{text!r} is not PATTERN=TYPE"
        raise UsageError(what, field="--tensor-type", hint="write it like attn_v=q6_k")
    return pattern, kind


def _number(kind: str, option: str) -> int:
    numbers = {t.name: t.number for t in TENSOR_TYPES.values() if t.name not in _NOT_WRITTEN}
    if kind.upper() not in numbers:
        hint = f"one of {' '.join(numbers)}"
        raise UsageError(f"{kind!r} is not a tensor type", field=option, hint=hint)
    return numbers[kind.upper()]


TYPES = MIXES
SHORT = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M", "MXFP4": "MXFP4_MOE"}
"""Further names of llama-quantize -> ours."""
_FLOATS = frozenset({"F32", "F16", "BF16", "F64"})


def file_type(name: str) -> int:
    """Return the number of a mix."""
    from difflib import get_close_matches

    mix = SHORT.get(name.upper(), name.upper())
    if mix not in TYPES:
        near = get_close_matches(mix, TYPES, n=1)
        hint = f"is it {near[0]}?" if near else f"one of {' '.join(TYPES)}"
        raise UsageError(f"--type {name!r} is not known", hint=hint)
    return TYPES[mix]


def quantized_types(file: GgufFile) -> list[str]:
    """Return the types of matrices that are already quantized, by name."""
    names = {t.type.name for t in file.tensors if t.type.block > 1 and len(t.shape) > 1}
    return sorted(names)


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
        progress: Called with the part that is done, 0 to 1.

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
            settle_journal(target, force=force)
            new = stack.enter_context(WholeFiles([target], force=force))
            job["target"] = new.part(target)  # a folder that takes none is named before the work
        if imatrix_from:
            matrix = temporary_matrix(source, imatrix_from, progress=imatrix_progress)
            job["imatrix"] = stack.enter_context(matrix)
        _run(job, progress)
        if new is not None:
            _compare(file, open_gguf(str(job["target"])))
            new.appear()


def _check(file: GgufFile, source: str, *, allow_requantize: bool) -> None:
    refuse_unfinished(file)
    if not file.tensors:
        raise UsageError("holds no tensors to quantize", source=source)
    types = quantized_types(file)
    if types and not allow_requantize:
        raise UsageError(
            f"is already quantized ({', '.join(types)}), and quantizing twice loses more",
            source=source,
            hint="use the original model, or add --allow-requantize",
        )


def _run(job: dict[str, object], progress: Callable[[float], object]) -> None:
    import json
    import subprocess
    import tempfile

    source = str(job["source"])
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603  this interpreter
            command_line("mtkit.llama.quantizer", (json.dumps(job),)),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            env={"OMP_WAIT_POLICY": "passive", **os.environ},
        ) as process,
    ):  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                count, total = map(int, line.split())
                progress(min(count - 1, total) / max(total, 1))
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            progress(1)
        errors.seek(0)
        message = " ".join(errors.read().decode("utf-8", "replace").split())
    if code in KINDS:
        raise KINDS[code](message.removeprefix("mtkit: "))
    if code:
        reason = f": {message}" if message else ""
        raise FormatError(
            f"ends llama.cpp's quantizer (code {code}){reason}", source=source,
            hint="mtkit check FILE --deep finds the problem",
        )  # fmt: skip


def _compare(before: GgufFile, after: GgufFile) -> None:
    """Check that the new model has the tensors of the old one."""
    shapes = [{t.name: t.shape for t in file.tensors} for file in (before, after)]
    if shapes[0] != shapes[1]:
        raise UnsupportedError("llama.cpp's quantizer left out tensors", source=before.name)
