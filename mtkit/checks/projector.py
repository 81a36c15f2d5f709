"""What clip.cpp, the part of llama.cpp that sees and hears, demands of a projector's file.

Keys come first, then tensors by the rows of the kind of projector. Tensors that it does not know
are no fault: it does not load them.

Source: llama.cpp, tools/mtmd/clip.cpp (``clip_model_loader``), clip-impl.h.
"""

from __future__ import annotations

from mtkit.architectures.projectors import KINDS, NAME, kind_in, recognize_encoders
from mtkit.architectures.projectors.rows import LINE_END
from mtkit.base.escape import quoted
from mtkit.base.rules import Finding
from mtkit.checks.loader import MISSING, SHAPE, TENSORS_PART, UNKNOWN
from mtkit.checks.report import survey
from mtkit.checks.tensors import fault_findings
from mtkit.errors import MtkitError
from mtkit.gguf.rules import LLAMA_CPP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.base.rules import Rule
    from mtkit.checks.report import Place
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor

_U32 = ("embedding_length", "attention.head_count", "feed_forward_length", "block_count",
        "projection_dim")  # fmt: skip
_EPSILON = "attention.layer_norm_epsilon"
_OWN = {"vision": ("image_size", "patch_size"), "audio": ("num_mel_bins",)}
_COLORS = ("image_mean", "image_std")
_GELU, _SILU = "clip.use_gelu", "clip.use_silu"


def is_projector(file: GgufFile) -> bool:
    """Tell a projector's file."""
    return file.metadata.get("general.architecture") == NAME


def _parts(file: GgufFile) -> list[str]:
    return [part for part in _OWN if file.metadata.get(f"clip.has_{part}_encoder") is True]


def _keys(file: GgufFile) -> Iterator[Place]:
    for part in _parts(file):
        types = {**dict.fromkeys((*_U32, *_OWN[part]), "u32"), _EPSILON: "f32"}
        if part == "vision":
            types.update(dict.fromkeys(_COLORS, "f32[]"))
        for name, kind in types.items():
            key = f"clip.{part}.{name}"
            entry = file.metadata.entries.get(key)
            if entry is None:
                yield key, "is missing", None
            elif (there := file.metadata.type_name(key)) != kind:
                yield key, f"is of type {there}, not {kind}", entry.value_offset
            elif kind == "f32[]" and len(entry.value) < 3:
                yield key, f"has {len(entry.value)} values, not three", entry.value_offset
    if not _parts(file):
        yield "clip.has_vision_encoder", "is missing: the file has no encoder", None
    if file.metadata.get(_GELU) is file.metadata.get(_SILU) is True:
        yield _GELU, f"and {_SILU} are both true", file.metadata.entries[_GELU].value_offset


def _kinds(file: GgufFile) -> Iterator[Place]:
    for part in _parts(file):
        key, kind = kind_in(file.metadata, f"clip.{part}")
        if kind is not None and kind not in KINDS:
            what = f"is {quoted(str(kind))}, which this version of llama.cpp does not know"
            yield key, what, file.metadata.entries[key].value_offset


_WHISPERS = ("ultravox", "qwen2a", "qwen2.5o", "voxtral", "meralion", "musicflamingo", "glma")
_PLACES = {
    **dict.fromkeys(_WHISPERS, ("a.position_embd.weight", 1500, "30 seconds of sound")),
    "minicpmv4_6": ("v.position_embd.weight", 4900, "a square of 70"),
}
"""Kind -> a tensor, and how many rows of it clip.cpp looks up, whatever the metadata say."""


def _runnable(file: GgufFile) -> Iterator[Place]:
    rows = {tensor.name: tensor.shape[-1] for tensor in file.tensors}
    widths = {}
    for part in _parts(file):
        _, kind = kind_in(file.metadata, f"clip.{part}")
        if kind == "pixtral" and LINE_END not in rows:
            yield LINE_END, "is missing: llama.cpp does not load the file without it", None
        name, least, what = _PLACES.get(kind, ("", 0, ""))
        if rows.get(name, least) < least:
            yield name, f"has {rows[name]} rows; llama.cpp takes {least}, for {what}", None
        deep = sum(f"v.deepstack.{layer}.fc1.weight" in rows for layer in range(len(rows)))
        own = file.metadata.get(f"clip.{part}.projection_dim")
        if isinstance(own, int):
            widths[part] = own * (1 + deep) if part == "vision" else own
    if len(set(widths.values())) > 1:
        sizes = " and ".join(f"{width} for {part}" for part, width in widths.items())
        yield "clip.projector_type", f"its tokens are of width {sizes}: llama.cpp takes one", None


RULES = (
    survey("projector-keys", "warning", LLAMA_CPP, "value",
           "A key that llama.cpp needs of a projector is missing or of another type. Convert the "
           "model's folder again with mtkit convert --mmproj.", _keys),
    survey("projector-kind", "warning", LLAMA_CPP, "clip.projector_type",
           "The kind of projector is unknown to this version of llama.cpp: a newer one may support "
           "it.", _kinds),
    survey("projector-tensors", "warning", LLAMA_CPP, "tensors",
           "llama.cpp refuses the file, or fails at the first picture or sound. Convert the whole "
           "model's folder with mtkit convert --mmproj, not a part of it.", _runnable),
)  # fmt: skip


def projector_findings(
    file: GgufFile, tensors: Sequence[Tensor]
) -> Iterator[Finding | tuple[str, str]]:
    """Yield what is wrong with the tensors of a projector, or why they were not looked at."""
    shapes = {tensor.name: tuple(reversed(tensor.shape)) for tensor in tensors}
    by_name = {tensor.name: tensor for tensor in tensors}

    def finding(rule: Rule, name: str, what: str) -> Finding:
        tensor = by_name.get(name)
        return Finding(
            rule, f"tensor {quoted(name)}", what, tensor.place(rule.field)[1] if tensor else None
        )

    try:
        encoders = recognize_encoders(file.metadata, shapes)
    except MtkitError as error:
        yield TENSORS_PART, str(error)
        return
    for kind, faults in encoders:
        in_file_order = [fault.in_file_order() for fault in faults]
        yield from fault_findings(
            in_file_order,
            finding,
            (MISSING, SHAPE, UNKNOWN),
            (
                f"is missing: {kind} projectors have it",
                "the metadata says",
                f"is not among those of {kind} projectors that mtkit converts",
            ),
        )
