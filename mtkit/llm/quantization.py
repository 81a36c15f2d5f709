"""A model quantized by llama.cpp, in a process of its own: ``mtkit quantize``.

``TensorKinds``: the type of single tensors, as ``--tensor-type`` names them.
Source: tools/quantize/quantize.cpp of llama.cpp (``parse_tensor_type``); llama-quant.cpp, where the
first pattern that is found in the name of a tensor counts, and the types of head and embedding
before all patterns.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import ExitStack

from mtkit.base.binary import Source
from mtkit.base.files import WholeFiles
from mtkit.base.process import command_line
from mtkit.base.record import Record, replace
from mtkit.base.watch import Calling, tell
from mtkit.checkpoints import legacy_imatrix
from mtkit.errors import (
    FormatError,
    ResourceError,
    UnsupportedError,
    UsageError,
    format_count,
    wording,
)
from mtkit.gguf import open_gguf
from mtkit.gguf.byte_order import refuse_big_endian
from mtkit.gguf.draft import Draft, refuse_forks, refuse_unfinished
from mtkit.gguf.in_place import settle_journal, write_ggufs
from mtkit.gguf.shards import cut_by_names, open_whole, parts_of, shard_file_names
from mtkit.gguf.types import FILE_TYPES, MIXES, TENSOR_TYPES
from mtkit.llm.importance import temporary_matrix
from mtkit.llm.quantize_choices import Choices
from mtkit.llm.trial import KINDS, exit_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mtkit.base.binary import Buffer
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor


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
            except (re.error, RecursionError, OverflowError, ValueError):
                continue  # llama.cpp has regular expressions of its own
            if not matches:
                yield f"no tensor's name has {pattern!r}"
            elif all(len(tensor.shape) < _LEAST_DIMENSIONS for tensor in matches):
                first = matches[0]
                yield f"{first.name} has one dimension and stays {first.type.name}: {pattern!r}"


_TERNARY = ("TQ1_0", "TQ2_0")
BUFFER = 32 << 20
"""Bytes of a tensor's rows in memory at a time. llama-quantize takes 8 GiB: a whole tensor as
floats and as it becomes, 714 MB for the 136 million weights of Qwen2.5's embedding.
"""
_NOT_TERNARY = ("per_layer_token_embd", "altup_router", "laurel_l", "laurel_r")
_TERNARY_BLOCK = 256


def converter_kinds(mix: str, file: GgufFile) -> TensorKinds:
    """Return the types of single tensors in which llama.cpp's converter differs from its quantizer.

    With TQ1_0 and TQ2_0, the converter keeps embeddings, the head and what is not whole blocks in
    F16. Source: conversion/base.py of llama.cpp (``prepare_tensors``).
    """
    if mix not in _TERNARY:
        return TensorKinds()
    kept = (
        tensor.name
        for tensor in file.tensors
        if len(tensor.shape) >= _LEAST_DIMENSIONS
        and (tensor.shape[0] % _TERNARY_BLOCK or any(part in tensor.name for part in _NOT_TERNARY))
        and tensor.type is not TENSOR_TYPES[0]
    )
    return TensorKinds([f"^{re.escape(name)}$=f16" for name in kept], "f16", "f16")


_PROJECTOR = "clip"
_WHOLE = re.compile(
    r"(mm\.input_projection|v\.patch_embd|mm\.patch_merger|[va]\.position_embd|a\.conv\w*\.\d+"
    r"|v\.sam\.blk\.\d+\.attn\.pos_[hw]|v\.resample_query_\d+|a\.blk\.\d+\.conv_dw)"
    r"\.weight(\.1)?"
)
"""Matrices of a projector that llama.cpp convolves with, adds or transposes: it has no code for
blocks there. So are those with more than two axes. Source: llama.cpp, tools/mtmd/models, clip.cpp
(``build_inp``)."""


def kept_kinds(file: GgufFile) -> list[str]:
    """Return PATTERN=TYPE for what stays as it is, as llama.cpp could not run it in blocks."""
    if file.metadata.get("general.architecture") != _PROJECTOR:
        return []
    kept = (
        tensor
        for tensor in file.tensors
        if tensor.type.block == 1 and (len(tensor.shape) > 2 or _WHOLE.fullmatch(tensor.name))
    )
    return [f"^{re.escape(tensor.name)}$={tensor.type.name}" for tensor in kept]


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


def file_type(name: str) -> int:
    """Return the number of a mix."""
    from difflib import get_close_matches

    mix = SHORT.get(name.upper(), name.upper())
    if mix not in TYPES:
        near = get_close_matches(mix, TYPES, n=1)
        hint = f"is it {near[0]}?" if near else f"one of {' '.join(TYPES)}"
        raise UsageError(f"{name!r} is not known", field=wording("--type", "kind"), hint=hint)
    return TYPES[mix]


def quantized_types(file: GgufFile) -> list[str]:
    """Return the types of matrices that are already quantized, by name."""
    names = {t.type.name for t in file.tensors if t.type.block > 1 and len(t.shape) > 1}
    return sorted(names)


class Quantization(Record):
    """What a quantizer made, or would make, of a model.

    Attributes:
        mix: As ``--type`` names it.
        before: The tensors of the model.
        types: Tensor -> new type; those that are missing keep theirs.
        fallbacks: Tensor -> the type that the mix has for it, and the one that it got: its rows are
            not a multiple of the first one's blocks.
    """

    mix: str
    before: Sequence[Tensor]
    types: Mapping[str, str]
    fallbacks: Mapping[str, tuple[str, str]]

    @property
    def counts(self) -> dict[str, int]:
        """Type -> number of matrices that have it now, the most first."""
        matrices = (tensor for tensor in self.before if len(tensor.shape) >= _LEAST_DIMENSIONS)
        types = (self.types.get(tensor.name, tensor.type.name) for tensor in matrices)
        return dict(Counter(types).most_common())

    @property
    def n_bytes(self) -> int:
        """Bytes of all tensors."""
        blocks = {kind.name: kind for kind in TENSOR_TYPES.values()}
        kinds = ((t, blocks[self.types.get(t.name, t.type.name)]) for t in self.before)
        return sum(t.n_elements // kind.block * kind.block_bytes for t, kind in kinds)

    @property
    def bits(self) -> float:
        """Bits per weight."""
        return 8 * self.n_bytes / max(1, sum(tensor.n_elements for tensor in self.before))

    def notes(self) -> Iterator[str]:
        """Yield what is not as the name of the mix says."""
        if self.fallbacks:
            what = _fallback_text(self.before, self.fallbacks)
            yield f"{what}; {self.bits:.2f} bits per weight"
        if self.mix == "MXFP4_MOE" and "MXFP4" not in self.counts:
            kind = next(iter(self.counts), "")
            yield (
                "MXFP4_MOE is for experts, and this model has none:"
                f" its matrices are {kind}, {self.bits:.2f} bits per weight"
            )


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
    fallback: bool = True,
    choices: Choices | None = None,
) -> Quantization:
    """Write a quantized model; it appears whole or not at all.

    Args:
        progress: Called with the part that is done, 0 to 1.
        fallback: Let tensors whose rows the type of the mix does not divide have another one.
        choices: What is chosen beside the type; with ``keep_split``, ``target`` is the model that
            the files are named after.

    Raises:
        UsageError: The model is already quantized, an edit of it was cut short, the target exists,
            or a text is too short.
        FormatError: The model or the importance matrix is damaged.
        UnsupportedError: llama.cpp cannot quantize it so, or not without a fallback.
        ResourceError: The disk is full, or llama.cpp ended the process that quantizes.
    """
    file = open_whole(source)
    _check(file, source, allow_requantize=allow_requantize)
    if imatrix is not None:
        matrix_file = Source.open(imatrix)
        if not legacy_imatrix.sniff(matrix_file):
            open_gguf(matrix_file)
    kinds = kinds or TensorKinds()
    kinds = replace(kinds, tensors=[*kinds.tensors, *kept_kinds(file)])
    choices = choices or Choices()
    choices.check(file, has_matrix=imatrix is not None or bool(imatrix_from))
    job = {
        "source": source, "name": name or source, "target": target, "path": target,
        "type": kind, "pure": pure, "imatrix": imatrix, "imatrix_name": imatrix,
        "requantize": allow_requantize, "dry_run": dry_run,
        "threads": threads or os.cpu_count() or 1, "buffer": BUFFER, **kinds.numbers(),
        **choices.job(),
    }  # fmt: skip
    with ExitStack() as stack:
        new = None
        shards = shard_paths(target, file) if choices.keep_split else [target]
        if not dry_run:
            for path in shards:
                settle_journal(path, force=force)
            new = stack.enter_context(WholeFiles(shards, force=force))
            job["target"] = new.part(target)  # a folder that takes none is named before the work
        if imatrix_from:
            matrix = temporary_matrix(source, imatrix_from, progress=imatrix_progress)
            job["imatrix"] = stack.enter_context(matrix)
        types, fallbacks = _run(job, file.tensors, progress, fallback=fallback)
        if new is not None:
            after = open_gguf(str(job["target"]))
            _compare(file, after, choices)
            types = {tensor.name: tensor.type.name for tensor in after.tensors}
            if len(shards) > 1:
                write_ggufs(dict(reversed(_shards(file, after, shards, choices))), force=force)
            else:
                new.appear()
        before = file.tensors if new is None or not choices.prune else after.tensors
    return Quantization(FILE_TYPES[kind], before, types, fallbacks)


def shard_paths(target: str, file: GgufFile) -> list[str]:
    """Return the files of ``keep_split``: as many as the model has, named after ``target``."""
    count = len(parts_of(file))
    return [target] if count == 1 else shard_file_names(target, count)


def _shards(
    file: GgufFile, after: GgufFile, paths: Sequence[str], choices: Choices
) -> list[tuple[str, Iterator[Buffer]]]:
    """Return the files of a quantized model, with the tensors that those of the model have."""
    names = [
        [name for name in map(choices.new_name, part.names) if name is not None]
        for part in parts_of(file)
    ]
    drafts = cut_by_names(Draft.of(after), names)
    return [(path, draft.chunks()) for path, draft in zip(paths, drafts, strict=True)]


def _check(file: GgufFile, source: str, *, allow_requantize: bool) -> None:
    refuse_unfinished(file)
    refuse_forks(file.tensors, source)
    refuse_big_endian(file)
    if not file.tensors:
        raise UsageError("holds no tensors to quantize", source=source)
    types = quantized_types(file)
    if types and not allow_requantize:
        raise UsageError(
            f"is already quantized ({', '.join(types)}), and quantizing twice loses more",
            source=source,
            hint="use the original model, or add "
            f"{wording('--allow-requantize', 'allow_requantize=True')}",
        )


def _run(
    job: dict[str, object],
    before: Sequence[Tensor],
    progress: Callable[[float], object],
    *,
    fallback: bool,
) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """Run the child; return tensor -> new type (of a dry run), and the fallbacks."""
    import json
    import subprocess
    import tempfile

    source = str(job["source"])
    tell("stage", f"quantizing {source}")
    types: dict[str, str] = {}
    fallbacks: dict[str, tuple[str, str]] = {}
    is_done = False
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603  this interpreter
            command_line("mtkit.llama.quantizer", (json.dumps(job),)),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            env={"OMP_WAIT_POLICY": "passive", **os.environ},
        ) as process,
        Calling(process.pid),
    ):  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                event, *values = json.loads(line)
                if event == "done":
                    is_done = True
                elif event == "type":
                    types[values[0]] = values[1]
                elif event == "importance":
                    _check_importance(values[0], before, job)
                elif event == "fallback":
                    fallbacks[values[0]] = values[1], values[2]
                elif fallback or not fallbacks:
                    count, total = values
                    progress(min(count - 1, total) / max(total, 1))
                else:  # all fallbacks are known before the first step
                    process.kill()
                    break
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            progress(1)
        errors.seek(0)
        lines = errors.read().decode("utf-8", "replace").split("\n")
    if fallbacks and not fallback:
        what = _fallback_text(before, fallbacks)
        hint = "choose a type with blocks of 32, such as Q8_0 or Q4_0"
        raise UnsupportedError(what, source=str(job["name"]), hint=hint)
    if code in KINDS and lines[-1]:  # before it are lines of ggml
        raise KINDS[code](lines[-1].removeprefix("mtkit: "))
    if code or not is_done:
        message = " ".join(" ".join(lines).split())
        reason = f": {message}" if message else ""
        raise ResourceError(
            f"llama.cpp's quantizer ended {exit_name(code)}{reason}", source=source,
            hint="mtkit check FILE --deep finds a damaged file; if it is sound, another build of"
            " llama-cpp-python may help",
        )  # fmt: skip
    return types, fallbacks


def _check_importance(
    names: Sequence[str], before: Sequence[Tensor], job: Mapping[str, object]
) -> None:
    """Check that an importance matrix is about the model; llama.cpp would go on without it."""
    if {tensor.name for tensor in before}.isdisjoint(names):
        what = "is the importance matrix of another model: none of its names is one of a tensor"
        raise FormatError(what, source=str(job["imatrix_name"] or job["imatrix"]))


def _fallback_text(before: Sequence[Tensor], fallbacks: Mapping[str, tuple[str, str]]) -> str:
    """Say how many tensors get another type than that of the mix, which, and why."""
    pairs = Counter(fallbacks.values()).most_common()
    each = ", ".join(f"{count} from {old} to {new}" for (old, new), count in pairs)
    columns = {tensor.name: tensor.shape[0] for tensor in before}
    widths = sorted({columns[name] for name in fallbacks if name in columns})
    rows = ", ".join(map(str, widths[:3])) + ", …" * (len(widths) > 3)
    mix_types = {mix_type for mix_type, _ in fallbacks.values()}
    blocks = sorted({kind.block for kind in TENSOR_TYPES.values() if kind.name in mix_types})
    why = f"rows of {rows} are not a multiple of {', '.join(map(str, blocks))}"
    count = f"{len(fallbacks)} of {format_count(len(before), 'tensor')}"
    verb = "falls" if len(fallbacks) == 1 else "fall"
    return f"{count} {verb} back to another type ({each}), as {why}"


def _compare(before: GgufFile, after: GgufFile, choices: Choices) -> None:
    """Check that the new model has the tensors of the old one that it is to have."""
    shapes = {choices.new_name(tensor.name): tensor.shape for tensor in before.tensors}
    shapes.pop(None, None)
    if shapes != {tensor.name: tensor.shape for tensor in after.tensors}:
        raise UnsupportedError("llama.cpp's quantizer left out tensors", source=before.name)
