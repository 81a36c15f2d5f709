"""Small files beside models, each read as its command reads it: sums, sessions, profiles, corpora …

A kind is a row of ``KINDS``: the files of a folder, which of them is changed and how, and what
reads them. Checksums are those of the changed content, so that it is looked at.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import importlib
import io
import json
import lzma
import os
import struct
import sys
import tempfile
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import torch_files
from adapters import linear_layers, write_adapter
from file_uses import clear
from model_folders import write_folder
from mutants import byte_level, gguf_level, json_level

from mtkit.base.binary import Source, package_file
from mtkit.checkpoints import adapter_folder, folder_files, sentence_modules
from mtkit.commands import arguments
from mtkit.conversion.adapter import plan_adapter
from mtkit.corpus import documents, job
from mtkit.gguf import open_gguf
from mtkit.gguf.adapters import read_adapters
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes
from mtkit.inspection.adapter import inspect_adapter
from mtkit.llama.importance import read_importance
from mtkit.llm import frequencies, session
from mtkit.llm.importance import ColumnSums
from mtkit.settings import DraftSettings
from mtkit.sources import config, hub
from mtkit.speculative.costs import Costs
from mtkit.speculative.setup import apply_profile, check_settings, read_profile
from workbench import folders, gguf_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    Level = Callable[[Random, bytes], bytes]
    Kind = tuple[Callable[[], dict[str, bytes]], tuple[Level, ...], Callable[[str], None]]
    Mutant = tuple[str, str, bytes]
    """Kind, name of a file, its new content."""

F32 = TENSOR_TYPES[0]
_HEAD = struct.Struct("<8sII")
"""Of a session file."""
SHAPES = {"blk.0.attn_q.weight": (64, 64), "blk.0.ffn_down.weight": (128, 64)}
TEXT = {"text": "Once upon a time, \u4f60\u597d."}
JSON, BYTES, LINES = json_level.mutate, byte_level.mutate, byte_level.mutate_lines


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()


def _sums() -> bytes:
    tensors = []
    for name, (width, _) in SHAPES.items():
        tensors.append(NewTensor(f"{name}.in_sum2", (width,), F32, bytes(4 * width)))
        tensors.append(NewTensor(f"{name}.counts", (1,), F32, np.float32(7).tobytes()))
    keys = [Key("general.type", "string", "imatrix"), Key("imatrix.chunk_count", "u32", 1),
            Key("imatrix.chunk_size", "u32", 512), Key("imatrix.datasets", "string[]", ["a"])
            ]  # fmt: skip
    return gguf_bytes(keys, tensors)


def _old_sums() -> bytes:
    entries = b"".join(
        struct.pack(f"<i{len(name)}sii", len(name), name.encode(), 3, width) + bytes(4 * width)
        for name, (width, _) in SHAPES.items()
    )
    return struct.pack("<i", len(SHAPES)) + entries + struct.pack("<ii3s", 5, 3, b"a.t")


def _lora() -> bytes:
    keys = [Key("general.type", "string", "adapter"), Key("adapter.type", "string", "lora"),
            Key("general.architecture", "string", "llama"), Key("adapter.lora.alpha", "f32", 8.0),
            ]  # fmt: skip
    tensors = [
        NewTensor(name + end, shape, F32, bytes(4 * shape[0] * shape[1]))
        for name, (width, height) in SHAPES.items()
        for end, shape in ((".lora_a", (width, 4)), (".lora_b", (4, height)))
    ]
    return gguf_bytes(keys, tensors)


def _llamafile() -> bytes:
    archive = io.BytesIO(b"MZqFpD" + bytes(90))
    archive.seek(96)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.gguf", gguf_files.wholes()["model"])
        file.writestr(".args", "-m\na.gguf\n")
    return archive.getvalue()


def _weights(*, before: bool) -> bytes:
    part = torch_files.tensor(torch_files.storage("0", 6), (2, 3))
    other = torch_files.tensor(torch_files.storage("1", 4, "HalfStorage"), (2,), (2,), 1)
    if before:
        view = b"N"
        part = torch_files.tensor(torch_files.storage("0", 6, view=view), (2, 3))
        return torch_files.saved_before(torch_files.table({"a": part}), {"0": (6, bytes(24))})
    return torch_files.saved(
        torch_files.table({"a": part, "b.c": other}), {"0": bytes(24), "1": bytes(8)}
    )


def _session() -> bytes:
    head = _dump(
        {"model": "x", "ids": [1, 2, 3], "n_past": 2, "kv_type": "f16", "flash_attention": "auto"}
    )
    return _with_sum(head)


def _with_sum(head: bytes) -> bytes:
    data = _HEAD.pack(b"MTKITSES", 2, len(head)) + head + b"state"
    return data + hashlib.sha256(data).digest()


def _mutate_session(rng: Random, data: bytes) -> bytes:
    if rng.random() < 0.2:
        return BYTES(rng, data)
    return _with_sum(JSON(rng, data[_HEAD.size : -5 - 32]))


def _mutate_zip(rng: Random, data: bytes) -> bytes:
    """Change an entry, or the lists behind them; most of the file are numbers."""
    if data[:4] != b"PK\3\4" or rng.random() < 0.5:
        at = len(data) - rng.randrange(min(len(data), 500))
        return data[:at] + BYTES(rng, data[at:])
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            entries = {name.partition("/")[2]: file.read(name) for name in file.namelist()}
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError, OSError):
        return BYTES(rng, data)
    name = rng.choice((*entries, "data.pkl", "data.pkl", "data.pkl"))
    entries[name] = BYTES(rng, entries.get(name, b""))  # a change before may have renamed it
    entries.pop("version", b"")
    return torch_files.zipped(entries)


def _packed(pack: Callable[[bytes], bytes]) -> bytes:
    return pack(_dump(TEXT) + b"\n" + _dump({"text": None}) + b"\n" + b"\xff{\n" + _dump(TEXT))


def _parquet() -> bytes:
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pyarrow.table({"text": ["a", "\u4f60", None], "n": [1, 2, 3]}), out)
    return out.getvalue()


def _zstd(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return bytes(zstd.compress(data))


# What reads them


def _add_up(path: str) -> None:
    sums = ColumnSums()
    for _ in range(2):
        sums.add(read_importance(path), path, 512)
    sums.chunks = sums.count_windows(512)
    sums.write(f"{path}.out", 512, force=True)
    for _, counts in read_importance(f"{path}.out").entries.values():
        assert (counts >= 0).all()


def _read_tensors(path: str) -> None:
    for stored in folder_files.tensors_of(path):
        assert len(stored.data) == stored.weight.n_bytes or stored.weight.strides


def _use_model(path: str) -> None:
    open_gguf(Source.open(path), strict=False)


def _use_lora(path: str) -> None:
    read_adapters(
        [path], "llama", [NewTensor(name, shape, F32, b"") for name, shape in SHAPES.items()]
    )


def _use_adapter(path: str) -> None:
    folder = os.path.dirname(path)
    inspect_adapter(folder).document()
    with clear():
        adapter_folder.read(folder, is_merged=True)
    plan = plan_adapter(folder, str(_base()))
    list(plan.notes())
    plan.keys()
    for tensor in plan.tensors():
        assert sum(memoryview(piece).nbytes for piece in tensor.pieces()) == tensor.n_bytes


def _use_session(path: str) -> None:
    with clear():
        session.read_session(path)


def _use_profile(path: str) -> None:
    check_settings(apply_profile(DraftSettings(draft="a", draft_profile=path), None, None))
    costs = Costs()
    costs.take(read_profile(path).get("known"))
    _use_costs(costs)


def _use_costs(costs: Costs) -> None:
    assert all(0 <= costs.verify(size) < float("inf") for size in (1, 2, 3, 7, 16, 99))
    assert costs.draft(3) >= 0 <= costs.reading(2)
    json.dumps(costs.document(), allow_nan=False)


def _use_counts(path: str) -> None:
    assert all(n < 500 for n in frequencies.parse_counts(path, arguments.read_text_file(path), 500))


def _use_corpus(path: str) -> None:
    reading = documents.Reading()
    for unit in documents.units_of([path], reading)[0]:
        for block in documents.read_documents(unit, reading):
            assert len(block.places) == len(block.texts)
            for place, _ in block.bad:
                documents.describe_place(unit, place)


def _use_arguments(path: str) -> None:
    with clear():
        list(arguments.read_prompts(path))
    with clear():
        frequencies.read_vocabulary(path, 100)
    arguments.read_conversation(path)


def _use_config(path: str) -> None:
    with patch.object(config, "path", lambda: path):
        config.find("model")
        config.write("model", "x")
        assert config.find("model")[0] == "x"


def _use_job(path: str) -> None:
    folder = os.path.dirname(path)
    unit = documents.Unit(path, "text", "", 0, 1, 1, 1)
    work = job.Job(package_file("default.mtok"))
    with job.Parts(folder) as parts:
        with clear():
            parts.begin(work, [unit], restart=False)
        parts.tally(0)


def _use_modules(path: str) -> None:
    folder = os.path.dirname(path)
    for use in (sentence_modules.pooling_of, sentence_modules.dense_places,
                lambda path: list(sentence_modules.module_notes(path)),
                lambda path: list(sentence_modules.read_dense(path))):  # fmt: skip
        with clear():
            use(folder)


def _use_refs(path: str) -> None:
    cache = Path(path).parents[2]
    with patch.dict(os.environ, {"HF_HUB_CACHE": str(cache)}):
        found = hub.find("a/b")
    assert found is None or os.path.realpath(found).startswith(os.path.realpath(cache)), found


MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
           {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
           {"idx": 2, "path": "2_Dense", "type": "sentence_transformers.models.Dense"}]  # fmt: skip
POOLING = {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}
DENSE = {
    "in_features": 8,
    "out_features": 4,
    "bias": True,
    "activation_function": "torch.nn.Identity",
}
PROFILE = {"schema": "mtkit.draft-profile/1", "settings": {"draft_max": 4, "draft_width": 2},
           "known": {"batches": {"2": [1.1], "4": [1.3, 1.2, 1.9]}, "drafted": [0.2], "read": [0.1],
                     "tried": 5, "accepted": 3, "free": [1, 0], "checked": 4}}  # fmt: skip
MESSAGES = {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}
TALLY = {"documents": 1, "tokens": 2, "size": 3, "empty": 0, "bad": 0}


@cache
def _base() -> Path:
    return write_folder(folders.root() / "base", "LlamaForCausalLM", tokenizer="")


@cache
def _adapter() -> dict[str, bytes]:
    layers = dict(list(linear_layers(_base()).items())[:3])
    more = {"rank_pattern": {}, "alpha_pattern": {"q_proj": 3}, "modules_to_save": None,
            "use_rslora": False, "use_dora": False, "init_lora_weights": True,
            "fan_in_fan_out": False,
            "lora_bias": False, "layers_pattern": None, "target_modules": ["q_proj"],
            "trainable_token_indices": None}  # fmt: skip
    path = write_adapter(folders.root() / "adapter", None, layers, config=more)
    return {one.name: one.read_bytes() for one in path.iterdir()}


KINDS: dict[str, Kind] = {
    "imatrix": (lambda: {"a.gguf": _sums()},
        (gguf_level.mutate, gguf_files.mutate_tensors, BYTES), _add_up),
    "old imatrix": (lambda: {"a.dat": _old_sums()}, (BYTES,), _add_up),
    "torch": (lambda: {"a.bin": _weights(before=False)}, (_mutate_zip,), _read_tensors),
    "old torch": (lambda: {"a.bin": _weights(before=True)}, (BYTES,), _read_tensors),
    "llamafile": (lambda: {"a.llamafile": _llamafile()}, (_mutate_zip,), _use_model),
    "lora": (lambda: {"a.gguf": _lora()},
        (gguf_level.mutate, gguf_files.mutate_tensors), _use_lora),
    "adapter": (_adapter, (JSON,), _use_adapter),
    "session": (lambda: {"a.session": _session()}, (_mutate_session,), _use_session),
    "profile": (lambda: {"a.json": _dump(PROFILE)}, (JSON,), _use_profile),
    "costs": (lambda: {"a.json": _dump(PROFILE["known"])},
        (JSON,), lambda path: _use_costs(Costs(path))),
    "counts": (lambda: {"a.json": _dump({"counts": {"3": 5, "7": 1}})}, (JSON,), _use_counts),
    "count lines": (lambda: {"a.tsv": b"3\t5\n7 1 # x\n\n9 9\n"}, (LINES,), _use_counts),
    "jsonl": (lambda: {"a.jsonl": _packed(bytes)}, (JSON, LINES), _use_corpus),
    "gz": (lambda: {"a.jsonl.gz": _packed(gzip.compress)}, (BYTES,), _use_corpus),
    "xz": (lambda: {"a.jsonl.xz": _packed(lzma.compress)}, (BYTES,), _use_corpus),
    "bz2": (lambda: {"a.txt.bz2": _packed(bz2.compress)}, (BYTES,), _use_corpus),
    "zst": (lambda: {"a.jsonl.zst": _packed(_zstd)}, (BYTES,), _use_corpus),
    "parquet": (lambda: {"a.parquet": _parquet()}, (BYTES,), _use_corpus),
    "messages": (lambda: {"a.json": _dump(MESSAGES)}, (JSON, LINES), _use_arguments),
    "prompts": (lambda: {"a.jsonl": _dump({"prompt": "x"}) + b"\nplain\n17 # x\n"},
        (LINES,), _use_arguments),
    "config": (lambda: {"a.toml": b'model = "x"\ntokenizer = "y"\n"a b" = "\\u00e9"\n'},
        (BYTES, LINES), _use_config),
    "job": (lambda: {"job.json": b"{}", "000000.json": _dump(TALLY)}, (JSON, BYTES), _use_job),
    "modules": (lambda: {"modules.json": _dump(MODULES), "1_Pooling/config.json": _dump(POOLING),
                         "2_Dense/config.json": _dump(DENSE)}, (JSON,), _use_modules),
    "refs": (lambda: {"models--a--b/refs/main": b"abc\n", "models--a--b/snapshots/abc/x": b"",
                      "models--a--b/snapshots/d/x": b""}, (BYTES,), _use_refs),
}  # fmt: skip
"""Name -> its files, how one of them is changed, what reads them."""


@cache
def wholes() -> dict[str, dict[str, bytes]]:
    """Return kind -> its sound files."""
    return {name: files() for name, (files, *_) in KINDS.items()}


def mutant(rng: Random) -> tuple[str, Mutant]:
    """Change a file of a kind."""
    sys.modules.setdefault("mistral_common", None)  # type: ignore[arg-type]  # gguf loads it
    importlib.import_module("gguf")  # once for all workers: a second of processor time
    _base()
    kind = rng.choice(list(wholes()))
    files = wholes()[kind]
    name = rng.choice([one for one in files if files[one]])
    data = files[name]
    for _ in range(1 + (rng.random() < 0.25)):
        level = (
            folders.mutate_header if name.endswith(".safetensors") else rng.choice(KINDS[kind][1])
        )
        data = level(rng, data)
    return f"{kind} {name}", (kind, name, data)


def use(made: Mutant, _: Random) -> str:
    """Write the files and read them."""
    kind, changed, data = made
    files = {**wholes()[kind], changed: data}
    with tempfile.TemporaryDirectory(dir=folders.root()) as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        was_read = []
        with clear():
            KINDS[kind][2](str(Path(folder, next(iter(files)))))
            was_read.append(kind)
        with suppress(FileNotFoundError):
            assert not [name for name in os.listdir(folder) if name.endswith(".part")]
    return "read" if was_read else "refused"
