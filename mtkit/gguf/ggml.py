"""Llama models in the formats before GGUF: GGML, GGMF and GGJT, as the keys and tensors of a GGUF.

Little-endian: a magic, the version but for GGML, seven numbers, the tokens with their scores (GGML
has none), then each tensor behind its own header, in GGJT at a multiple of 32. Quantized numbers
were laid out anew twice: llama.cpp reads F32 and F16 of all versions, Q4 and Q8 of the last.

Source: llama.cpp, convert_llama_ggml_to_gguf.py.
"""

from __future__ import annotations

from math import prod

from mtkit.base.binary import Reader
from mtkit.base.escape import shown
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.gguf.draft import Draft
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.base.binary import Source

_MAGICS = {b"lmgg": "GGML", b"fmgg": "GGMF", b"tjgg": "GGJT"}
_VERSIONS = {"GGML": (0,), "GGMF": (1,), "GGJT": (1, 2, 3)}
_NUMBERS = ("n_vocab", "n_embd", "n_mult", "n_head", "n_layer", "n_rot", "ftype")
_ALIGNMENT, _MOST_TOKEN = 32, 4096
_PLAIN = ("F32", "F16")
_REMADE = ("Q4_0", "Q4_1", "Q8_0")
"""Types of which the third version of GGJT has other blocks."""
_CONTEXT, _EPSILON = 2048, 5e-6
"""What the converter assumes: the file does not say it."""
ASSUMPTIONS = (f"the context is {_CONTEXT} tokens, and the epsilon of norms {_EPSILON:g}",)
_NAMES = {
    "tok_embeddings": "token_embd", "norm": "output_norm", "output": "output",
    "attention.wq": "attn_q", "attention.wk": "attn_k", "attention.wv": "attn_v",
    "attention.wo": "attn_output", "attention_norm": "attn_norm", "ffn_norm": "ffn_norm",
    "feed_forward.w1": "ffn_gate", "feed_forward.w2": "ffn_down", "feed_forward.w3": "ffn_up",
}  # fmt: skip
_WEIGHT = ".weight"
_IN_LAYER = ("attention", "f")
"""How names begin that each layer has."""
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_SPECIAL = (b"<unk>", b"<s>", b"</s>")
_LAST_BYTE = 258


def sniff(head: bytes) -> bool:
    """Tell by the first bytes."""
    return head[:4] in _MAGICS


def read(source: Source) -> Draft:
    """Return the keys and tensors of a GGUF of this model; numbers stay in the file.

    Raises:
        FormatError: The file is damaged.
        UnsupportedError: Its numbers are in blocks that no llama.cpp reads any more.
    """
    reader = Reader(source.data)
    kind = _MAGICS[reader.take(4, "magic")]
    version = reader.u32("version") if kind != "GGML" else 0
    if version not in _VERSIONS[kind]:
        known = ", ".join(map(str, _VERSIONS[kind]))
        raise UnsupportedError(f"is {version} of {kind}, not {known}", field="version")
    sizes = {name: reader.u32(name) for name in _NUMBERS}
    for name in ("n_vocab", "n_embd", "n_head", "n_layer"):
        if not 0 < sizes[name] < 1 << 24:
            raise FormatError(f"is {sizes[name]}", field=name)
    if sizes["n_embd"] % sizes["n_head"]:
        raise FormatError(f"is {sizes['n_head']}, which does not divide n_embd", field="n_head")
    vocabulary = tuple(_vocabulary(reader, sizes["n_vocab"], has_scores=kind != "GGML"))
    is_last = (kind, version) == ("GGJT", 3)
    tensors = []
    while reader.left:
        tensor = _tensor(reader, aligned=kind == "GGJT")
        name = tensor.type.name
        if name not in _PLAIN and not is_last and (name in _REMADE or version < 2):
            what = f"is {name} of {kind} {version or ''}".rstrip()
            what += ", whose blocks llama.cpp has not read since 2023"
            hint = "take the model in a newer file, or in F16"
            raise UnsupportedError(what, field=f"tensor {shown(tensor.name)}", hint=hint)
        tensors.append(tensor)
    return Draft((*_model_keys(sizes, tensors), *vocabulary), tensors)


def _vocabulary(reader: Reader, count: int, *, has_scores: bool) -> Iterator[Key]:
    reader.count(count, 8 if has_scores else 4, "n_vocab", 4)
    pieces, scores, types = [], [], []
    for number in range(count):
        at = reader.offset
        length = reader.u32("token")
        if length > _MOST_TOKEN:
            raise FormatError(f"has {length} bytes", field=f"token {number}", offset=at)
        text = reader.take(length, "token")
        scores.append(reader.f32("score") if has_scores else 0.0)
        kind = _NORMAL
        if number < len(_SPECIAL):
            text, kind = _SPECIAL[number], _CONTROL if number else _UNKNOWN
        elif not text:
            kind = _CONTROL
        elif number <= _LAST_BYTE and length == 1:
            text, kind = b"<0x%02X>" % text[0], _BYTE
        else:
            text = text.replace(b" ", "\u2581".encode())
        pieces.append(text)
        types.append(kind)
    tokenizer = "tokenizer.ggml."
    yield Key(f"{tokenizer}model", "string", "llama")
    yield Key(f"{tokenizer}tokens", "string[]", Pieces.of(pieces))
    yield Key(f"{tokenizer}scores", "f32[]", Numbers.of("f", scores))
    yield Key(f"{tokenizer}token_type", "i32[]", types)
    for number, role in enumerate(("unknown", "bos", "eos")):
        yield Key(f"{tokenizer}{role}_token_id", "u32", number)


def _tensor(reader: Reader, *, aligned: bool) -> NewTensor:
    at = reader.offset
    axes, length, number = (reader.u32(name) for name in ("n_dims", "name", "type"))
    if not 0 < axes <= 4 or not 0 < length <= _MOST_TOKEN or number not in TENSOR_TYPES:
        raise FormatError("is not that of a tensor", field="header", offset=at)
    kind = TENSOR_TYPES[number]
    shape = tuple(reader.u32("shape") for _ in range(axes))
    name = reader.take(length, "name").decode("utf-8", "replace")
    if not all(shape) or shape[0] % kind.block:
        what = f"has the shape {list(shape)}"
        raise FormatError(what, field=f"tensor {shown(name)}", offset=at)
    if aligned:
        reader.view(-reader.offset % _ALIGNMENT, "padding")
    size = prod(shape) // kind.block * kind.block_bytes
    return NewTensor(_name(name), shape, kind, reader.view(size, f"tensor {shown(name)}"))


def _name(name: str) -> str:
    stem, parts = name.removesuffix(_WEIGHT), name.split(".")
    in_layer = parts[0] == "layers" and len(parts) > 3 and parts[1].isdecimal()
    prefix = f"layers.{parts[1]}." if in_layer else ""
    new = _NAMES.get(stem.removeprefix(prefix))
    if new is None or not name.endswith(_WEIGHT):
        raise UnsupportedError("is not a tensor of a Llama model", field=f"tensor {shown(name)}")
    return f"blk.{parts[1]}.{new}{_WEIGHT}" if in_layer else f"{new}{_WEIGHT}"


def _model_keys(sizes: dict[str, int], tensors: list[NewTensor]) -> Iterator[Key]:
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    width = sizes["n_embd"] // sizes["n_head"]
    for layer in range(sizes["n_layer"]):
        for old, new in _NAMES.items():
            name = f"blk.{layer}.{new}{_WEIGHT}" if old.startswith(_IN_LAYER) else new + _WEIGHT
            if name not in shapes:
                raise FormatError(f"lack {name}", field="tensors", hint="download the file again")
    hidden, wide = (shapes[f"blk.0.{name}.weight"][-1] for name in ("ffn_gate", "attn_k"))
    numbers = {
        "vocab_size": sizes["n_vocab"],
        "context_length": _CONTEXT,
        "embedding_length": sizes["n_embd"],
        "feed_forward_length": hidden,
        "block_count": sizes["n_layer"],
        "attention.head_count": sizes["n_head"],
        "attention.head_count_kv": max(wide // width, 1),
        "rope.dimension_count": width,
    }
    yield Key("general.architecture", "string", "llama")
    yield Key("general.file_type", "u32", sizes["ftype"])
    for name, number in numbers.items():
        yield Key(f"llama.{name}", "u32", number)
    yield Key("llama.attention.layer_norm_rms_epsilon", "f32", _EPSILON)
