"""Small GGUF files of every kind, used as check, inspect, edit, split, merge … use them."""

from __future__ import annotations

import tempfile
from functools import cache, lru_cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from file_uses import assert_plain, clear
from gguf_layout import Layout, sample, small
from mutants import byte_level, gguf_level
from small_gguf import small_gguf

from mtkit.base.binary import Source
from mtkit.checks.checker import CheckOptions, check_source
from mtkit.commands.inspect import gguf as inspect_gguf
from mtkit.errors import MtkitError
from mtkit.gguf import in_place, open_gguf
from mtkit.gguf.byte_order import in_other_order
from mtkit.gguf.digests import digests
from mtkit.gguf.draft import Draft, parse_key
from mtkit.gguf.shards import merge_shards, shard_file_names, split_model
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes
from mtkit.inspection.difference import find_difference
from mtkit.inspection.statistics import tensor_statistics
from mtkit.llm.trim import trim

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from mtkit.gguf import GgufFile

NUMBERS = (0, 1, 2, 3, 31, 32, 33, 64, 256, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32,
           1 << 61, (1 << 63) - 1, 1 << 63, (1 << 64) - 32, (1 << 64) - 1)  # fmt: skip
NAMES = (b"", b"a", b"\xff", b"x" * 64, b"x" * 63, b"output.weight", b"token_embd.weight", b"a\0b",
         b"blk.0.attn_q.weight", b"blk.99999999999999999999.x", b"a\n", b"a.lora_b")  # fmt: skip
TYPED = ("u8:1", "i64:-5", "f32:nan", "bool:true", "string:x", "string[]:[\"a\"]", "u32:4294967296",
         "u16[]:[1,2]", "x", "u32:64", "u32:3", "f64:1e400", "bool:maybe", "")  # fmt: skip
DEEP = 0.1
"""Share of the mutants whose data is read, too, and whose chat template is tried."""


@cache
def wholes() -> dict[str, bytes]:
    """Return name -> sound file."""
    words = [b"<unk>", b"<s>", b"</s>", b"a", b"b", b"ab"]
    tokenizer = [
        Key("tokenizer.ggml.model", "string", "llama"),
        Key("tokenizer.ggml.tokens", "string[]", words),
        Key("tokenizer.ggml.scores", "f32[]", [0.0, 0.0, 0.0, -1.0, -2.0, -3.0]),
        Key("tokenizer.ggml.token_type", "i32[]", [2, 3, 3, 1, 1, 1]),
        Key("tokenizer.ggml.bos_token_id", "u32", 1),
        Key("tokenizer.chat_template", "string", "{{ messages[0].content }}"),
    ]
    model = [
        Key("general.architecture", "string", "llama"),
        Key("llama.block_count", "u32", 1),
        Key("llama.embedding_length", "u32", 32),
        Key("llama.context_length", "u32", 64),
        Key("llama.attention.head_count", "u32", 2),
        Key("llama.attention.layer_norm_rms_epsilon", "f32", 1e-5),
    ]
    adapter = [Key("general.type", "string", "adapter"), Key("adapter.lora.alpha", "f32", 16.0)]
    shard = [Key("split.no", "u16", 0), Key("split.count", "u16", 2)]
    rows = [("token_embd.weight", (32, 6)), ("output.weight", (32, 6))]
    squares = [(f"blk.0.attn_{part}.weight", (32, 32)) for part in ("q", "k", "v", "output")]
    pair = [("blk.0.attn_q.weight.lora_a", (32, 4)), ("blk.0.attn_q.weight.lora_b", (4, 32))]
    every = [_tensor(f"t.{n}", (kind.block, 2), n) for n, kind in TENSOR_TYPES.items()]
    ends = [_tensor(name, shape) for name, shape in rows]
    whole = gguf_bytes([*model, *tokenizer], [*ends, *(_tensor(*one) for one in squares)])
    return {
        "vocabulary": small_gguf("t5", {"eos_token_id": 1}, {"add_bos_token": False}),
        "model": whole,
        "big-endian": b"".join(in_other_order(open_gguf(Source("", whole)))),
        **{
            f"types {at}": gguf_bytes([model[0], Key("general.alignment", "u32", 64)], every[at::4])
            for at in range(4)
        },
        "adapter": gguf_bytes([model[0], *adapter], [_tensor(*one) for one in pair]),
        "shard": gguf_bytes([model[0], *shard], ends),
        "values": sample(Layout()),
        "small": small(Layout()),
        "version 1": small(Layout(1)),
    }  # fmt: skip


def _tensor(name: str, shape: tuple[int, ...], number: int = 0) -> NewTensor:
    kind = TENSOR_TYPES[number]
    size = prod(shape) // kind.block * kind.block_bytes
    return NewTensor(name, shape, kind, bytes(at % 61 for at in range(size)))


def mutant(rng: Random) -> tuple[str, Source]:
    """Change keys, the tensor table or bytes in front of the data of a file, once or twice."""
    name = rng.choice(list(wholes()))
    data = wholes()[name]
    done = []
    for _ in range(1 + (rng.random() < 0.3)):
        change = rng.choice((gguf_level.mutate, mutate_tensors, mutate_tensors, _head, _head))
        data = change(rng, data)
        done.append(change.__name__)
    return f"{name} {' '.join(done)}", Source("", data)


@lru_cache(16)
def _opened(data: bytes) -> GgufFile:
    return open_gguf(Source("", data))


def _head(rng: Random, data: bytes) -> bytes:
    """Change bytes where they say something."""
    try:
        start = _opened(data).data_offset
    except MtkitError:
        start = min(len(data), 2000)
    return byte_level.mutate(rng, data[:start]) + data[start:]


def mutate_tensors(rng: Random, data: bytes) -> bytes:
    """Change the entry of a tensor, drop it or have it twice."""
    try:
        file = _opened(data)
    except MtkitError:
        return byte_level.mutate(rng, data)
    layout = Layout(order="<" if file.byte_order == "little" else ">")
    tensors = [
        [tensor.name.encode("utf-8", "surrogateescape"), [*tensor.shape], tensor.type.number,
         tensor.offset]
        for tensor in file.tensors
    ]  # fmt: skip
    if not tensors or file.version == 1:
        return _head(rng, data)
    one = rng.choice(tensors)
    shape: list[int] = one[1]
    match rng.randrange(9):
        case 0:
            one[0] = rng.choice((*NAMES, rng.choice(tensors)[0]))
        case 1 | 2 if shape:
            shape[rng.randrange(len(shape))] = rng.choice(NUMBERS)
        case 3:
            shape.insert(0, rng.choice((0, 1, 2)))
        case 4:
            one[1] = shape[:-1]
        case 5:
            one[2] = rng.choice((*TENSOR_TYPES, 4, 5, 31, 99, (1 << 32) - 1))
        case 6:
            one[3] = rng.choice((*NUMBERS, one[3] + 32, max(one[3] - 32, 0), one[3] + 1))
        case 7:
            tensors.remove(one)
        case _:
            tensors.insert(rng.randrange(len(tensors) + 1), list(one))
    head = bytearray(data[: file.metadata_end])
    head[8:16] = layout.pack("Q", len(tensors))
    head += b"".join(layout.tensor(*entry) for entry in tensors)
    return bytes(head) + bytes(-len(head) % file.alignment) + data[file.data_offset :]


def use(source: Source, rng: Random) -> str:
    """Check, and do one of the other things that one does with a GGUF."""
    with clear():
        for finding in check_source(source, CheckOptions(deep=rng.random() < DEEP)).findings:
            assert_plain(str(finding))
    file = None
    with clear():
        file = open_gguf(source)
    if file is None:
        with clear():
            open_gguf(source, strict=False)
        return "refused"
    with clear():
        rng.choice(USES)(file, rng)
    return "read"


def _shown(file: GgufFile, rng: Random) -> None:
    inspect_gguf.show_gguf(
        Source(file.name, file.data), sections=(), pattern=None, sort=None, in_full=True,
        as_json=rng.random() < 0.3, quiet=False,
    )  # fmt: skip


def _edited(file: GgufFile, rng: Random) -> None:
    """Change names and values; what is written is what was asked for."""
    draft = Draft.of(file)
    for _ in range(rng.randrange(1, 4)):
        with clear():
            _change(file, draft, rng)
    if rng.random() < 0.3:
        in_place.check_header(file, draft)
    _same_data(draft, b"".join(draft.chunks()))


def _change(file: GgufFile, draft: Draft, rng: Random) -> None:
    key = rng.choice([*file.metadata, "x", "", "general.alignment"])
    other = rng.choice([*file.metadata, "y", "", "\udcff", "split.count"])
    match rng.randrange(5):
        case 0:
            draft.set(parse_key(key, rng.choice(TYPED), file.metadata))
        case 1:
            draft.set(Key(key, "string", rng.choice(NAMES)))
        case 2:
            draft.unset(key)
        case 3:
            draft.rename_key(key, other)
        case _:
            names = [*draft.tensors, "z", ""]
            draft.rename_tensor(rng.choice(names), rng.choice(names))


def _same_data(draft: Draft, data: bytes) -> None:
    made = open_gguf(Source("made.gguf", data), strict=False)
    assert made.is_whole, made.findings
    there = {one.name: bytes(made.tensor_data(one)) for one in made.tensors}
    assert there == {name: bytes(one.data) for name, one in draft.tensors.items()}
    assert [*made.metadata] == [*draft.keys]


def _cut(file: GgufFile, rng: Random) -> None:
    """Split; now and then on the disk, and merged."""
    drafts = split_model(
        file,
        max_bytes=rng.choice((None, 1, 128, 5000)),
        max_tensors=rng.choice((None, 1, 2)),
        first_without_tensors=rng.random() < 0.3,
    )
    written = [b"".join(draft.chunks()) for draft in drafts]
    for draft, data in zip(drafts, written, strict=True):
        _same_data(draft, data)
    if rng.random() < 0.1 and len(drafts) < 9:
        with tempfile.TemporaryDirectory() as folder:
            names = shard_file_names("a.gguf", len(drafts))
            for name, data in zip(names, written, strict=True):
                Path(folder, name).write_bytes(data)
            if len(drafts) > 1:
                whole = merge_shards(open_gguf(Path(folder, names[0])))
                joined = {name: bytes(one.data) for name, one in whole.tensors.items()}
                assert joined == {one.name: bytes(file.tensor_data(one)) for one in file.tensors}


def _joined(file: GgufFile, rng: Random) -> None:
    """Merge the file with itself as the other one."""
    with tempfile.TemporaryDirectory() as folder:
        for name in shard_file_names("a.gguf", 2):
            Path(folder, name).write_bytes(file.data)
        b"".join(
            merge_shards(
                open_gguf(Path(folder, shard_file_names("a.gguf", 2)[rng.random() < 0.1]))
            ).chunks()
        )


def _turned(file: GgufFile, _: Random) -> None:
    """Twice gives the same file."""
    there = b"".join(in_other_order(file))
    back = b"".join(in_other_order(open_gguf(Source("turned.gguf", there))))
    assert back == bytes(file.data)


def _measured(file: GgufFile, rng: Random) -> None:
    list(digests([file], ("sha256", "sha1", "uuid")))
    if file.tensors:
        tensor_statistics(file, rng.choice(file.tensors))


def _differs(file: GgufFile, rng: Random) -> None:
    name = rng.choice(list(wholes()))
    find_difference(file, open_gguf(Source(name, wholes()[name])), values=rng.random() < 0.2)
    assert find_difference(file, file).equal


def _trimmed(file: GgufFile, rng: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.gguf")
        path.write_bytes(file.data)
        b"".join(trim(str(path), [0, 1, rng.randrange(8)], texts=["ab"]).draft.chunks())


USES: tuple[Callable[[GgufFile, Random], None], ...] = (
    *(_edited, _cut, _shown) * 4, *(_turned, _measured, _differs) * 2, _joined, _trimmed,
)  # fmt: skip
