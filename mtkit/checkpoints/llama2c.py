"""llama2.c checkpoint with the header of seven numbers (``stories260K.bin``).

Layout, little-endian, no padding: i32 dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size,
seq_len; then float32 weights, each kind for all layers, rows of outputs by columns of inputs:
embedding, attention norms, q, k, v, output of attention, feed-forward norms, gate (w1), down (w2),
up (w3), last norm, two tables of rotations that are not read, and the classifier where it is not
the embedding. The classifier is the embedding when vocab_size is positive.

The file has no magic: seven sound numbers that give its size to the byte are the sign. Rotations
turn neighboring elements, as GGUF's llama has them, so no row changes its place.

Source: karpathy/llama2.c, run.c (``Config``, ``memory_map_weights``), export.py
(``legacy_export``). docs/formats/llama2c-checkpoint.md has the whole layout.
"""

from __future__ import annotations

from math import prod

from mtkit.base.binary import Reader
from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.base.binary import Source

HEADER = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len")
HEADER_BYTES = 4 * len(HEADER)
FLOAT_BYTES = 4
NEW_HEADER = b"24ka"
"""First bytes of the later versions of the format."""
NORM_EPSILON, ROPE_BASE = 1e-5, 10000.0
"""Constants of run.c."""
F32 = TENSOR_TYPES[0]


class Checkpoint(Record):
    """A model as read.

    Attributes:
        n_embd: Width of the hidden states.
        n_ff: Width inside the feed-forward part.
        tensors: Weights under their GGUF names; views of the file.
    """

    n_embd: int
    n_ff: int
    n_layer: int
    n_head: int
    n_head_kv: int
    n_vocab: int
    n_ctx: int
    tensors: tuple[NewTensor, ...]

    def gguf_keys(self) -> list[Key]:
        """Return the metadata of a GGUF of this model, without its name and tokenizer."""
        numbers = {
            "vocab_size": self.n_vocab,
            "context_length": self.n_ctx,
            "embedding_length": self.n_embd,
            "feed_forward_length": self.n_ff,
            "block_count": self.n_layer,
            "attention.head_count": self.n_head,
            "attention.head_count_kv": self.n_head_kv,
            "rope.dimension_count": self.n_embd // self.n_head,
        }
        return [
            Key("general.type", "string", "model"),
            Key("general.file_type", "u32", F32.number),
            *(Key(f"llama.{name}", "u32", number) for name, number in numbers.items()),
            Key("llama.attention.layer_norm_rms_epsilon", "f32", NORM_EPSILON),
            Key("llama.rope.freq_base", "f32", ROPE_BASE),
        ]


def sniff(source: Source) -> bool:
    """Tell by the header, which must be sound and give the size of the file."""
    try:
        read(source)
    except (FormatError, UnsupportedError):
        return False
    return True


def read(source: Source) -> Checkpoint:
    """Read a checkpoint; weights stay in the file until they are needed.

    Raises:
        FormatError: The header makes no sense, or the file is not as long as it says.
        UnsupportedError: It is a later version of the format.
    """
    reader = Reader(source.data)
    if bytes(reader.data[:4]) == NEW_HEADER:
        raise UnsupportedError(
            "is a llama2.c checkpoint of a later version",
            hint="llama2.c's export.py writes --version 0, which can be read",
        )
    numbers = [reader.i32(name) for name in HEADER]
    own_classifier = numbers[5] < 0
    numbers[5] = abs(numbers[5])
    _check(numbers)
    dim, hidden, layers, heads, kv_heads, vocab, context = numbers
    wide = dim // heads * kv_heads
    kinds = {
        "attn_norm": (dim,),
        "attn_q": (dim, dim),
        "attn_k": (dim, wide),
        "attn_v": (dim, wide),
        "attn_output": (dim, dim),
        "ffn_norm": (dim,),
        "ffn_gate": (dim, hidden),
        "ffn_down": (hidden, dim),
        "ffn_up": (dim, hidden),
    }
    per_layer = sum(map(prod, kinds.values()))
    rotations = context * (dim // heads)  # half a head twice
    floats = vocab * dim * (1 + own_classifier) + layers * per_layer + dim + rotations
    expected, size = HEADER_BYTES + FLOAT_BYTES * floats, len(reader.data)
    if size != expected:
        raise FormatError(
            f"has {size} bytes, but the header says {expected}",
            field="size",
            hint="the file is truncated" if size < expected else "is this a llama2.c checkpoint?",
        )
    tensors = [_take(reader, "token_embd", (dim, vocab))]
    for kind, shape in kinds.items():
        tensors += [_take(reader, f"blk.{layer}.{kind}", shape) for layer in range(layers)]
    tensors.append(_take(reader, "output_norm", (dim,)))
    reader.view(FLOAT_BYTES * rotations, "rotations")
    if own_classifier:
        tensors.append(_take(reader, "output", (dim, vocab)))
    return Checkpoint(dim, hidden, layers, heads, kv_heads, vocab, context, tuple(tensors))


def _check(numbers: list[int]) -> None:
    fault = next(_faults(numbers), None)
    if fault is not None:
        name, offset, wrong = fault
        raise FormatError(wrong, field=name, offset=offset, hint="is this a llama2.c checkpoint?")


def _faults(numbers: list[int]) -> Iterator[tuple[str, int, str]]:
    """Yield (name, offset, what is wrong); no number is a divisor before it is checked."""
    for place, number in enumerate(numbers):
        if number <= 0:
            yield HEADER[place], 4 * place, f"is {number}, not a positive number"
    dim, _, _, heads, kv_heads, _, _ = numbers
    if dim % heads or dim // heads % 2:
        yield "n_heads", 12, f"is {heads}, which does not divide dim {dim}"
    if heads % kv_heads:
        yield "n_kv_heads", 16, f"is {kv_heads}, which does not divide the {heads} heads"


def _take(reader: Reader, name: str, shape: tuple[int, ...]) -> NewTensor:
    view = reader.view(FLOAT_BYTES * prod(shape), name)
    return NewTensor(f"{name}.weight", shape, F32, view)
