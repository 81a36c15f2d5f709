"""Adapters that run with a model: llama.cpp gives the logits of the weights they are added to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapters import LAYERS, linear_layers, write_adapter
from changed_models import changed
from hf_models import folder
from merged import logits, merge
from model_folders import write_folder
from support import Run, one_line, reference

from mtkit.api.generation import generate
from mtkit.base.record import replace
from mtkit.conversion.adapter import convert_adapter
from mtkit.conversion.model import convert_model
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.adapters import parse_adapter
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, write_gguf
from mtkit.llm.header import ModelHeader
from mtkit.llm.runner import open_model
from mtkit.llm.session import model_hash
from mtkit.settings import ContextSettings, ModelSettings

IDS = [(20 + 17 * at) % 256 for at in range(20)]
EXACT = ContextSettings(n_ctx=32, kv_type="f32", flash_attention="off")
NO_EXPERTS = {"num_local_experts": None, "num_experts_per_tok": None}


@pytest.fixture(autouse=True)
def _llama(monkeypatch: pytest.MonkeyPatch) -> None:
    reference("llama_cpp")
    monkeypatch.setenv("MTKIT_TRIAL", "0")


def found_logits(model: str, *lora: str) -> Any:
    """Return llama.cpp's logits behind the last id."""
    with open_model(ModelSettings(model, EXACT, lora=lora)) as runner:
        context = runner.open_context()
        context.decode(IDS)
        return context.logits().copy()


def distance(one: Any, other: Any) -> float:
    return float(np.sqrt(np.square(one - other).mean()) / other.std())


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_logits_are_those_of_the_sum(name: str, tmp_path: Path) -> None:
    """Of numpy, with W + scale B A for each W: all layers, two adapters, several scales."""
    base = write_folder(tmp_path / "base", name, config=NO_EXPERTS, optional=("lm_head.weight",))
    model = convert_model(base, tmp_path / "m.gguf", kind="f32").path
    layers = linear_layers(base, (*LAYERS, "lm_head"))
    one = write_adapter(tmp_path / "one", base, layers)
    few = dict(list(layers.items())[3:6])
    two = write_adapter(tmp_path / "two", base, few, rank=7, config={"use_rslora": True})
    paths = [convert_adapter(path).path for path in (one, two)]
    plain = logits(base, [], IDS)
    assert distance(found_logits(model), plain) < 1e-4
    for scales in ((1.0, None), (-0.5, None), (None, 1.0), (0.25, 2.0)):
        used = [
            (source, path, scale)
            for source, path, scale in zip((one, two), paths, scales, strict=True)
            if scale is not None
        ]
        wanted = logits(base, [(source, scale) for source, _, scale in used], IDS)
        assert distance(wanted, plain) > 0.1
        found = found_logits(model, *(f"{path}:{scale}" for _, path, scale in used))
        assert distance(found, wanted) < 1e-4
    assert distance(found_logits(model, f"{paths[0]}:0"), plain) < 1e-4
    assert distance(found_logits(model, paths[0]), logits(base, [(one, 1.0)], IDS)) < 1e-4


@pytest.mark.parametrize(
    ("name", "wanted", "config"),
    [
        ("mixtral", ("q_proj", "w1", "w2", "w3", "gate"), {}),
        ("falcon", ("query_key_value", "dense"), {}),
        ("gpt2", ("c_attn", "c_proj", "c_fc"), {"fan_in_fan_out": True}),
    ],
)
def test_logits_are_those_of_a_merged_model(
    name: str, wanted: tuple[str, ...], config: dict[str, Any], tmp_path: Path
) -> None:
    """Experts, rows of several matrices in one, transposed layers; llama.cpp on both sides."""
    base = folder(name)
    layers = linear_layers(base, wanted)
    if config:  # PEFT's pair is that of the layer, not of how its weight is stored
        layers = {name: (columns, rows) for name, (rows, columns) in layers.items()}
    adapter = write_adapter(tmp_path / "adapter", base, layers, config=config)
    model = convert_model(base, tmp_path / "m.gguf", kind="f32").path
    merged = convert_model(
        merge(tmp_path / "merged", base, adapter), tmp_path / "merged.gguf", kind="f32"
    ).path
    right = found_logits(merged)
    assert distance(found_logits(model), right) > 0.1
    assert distance(found_logits(model, convert_adapter(adapter).path), right) < 2e-3


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return a model and an adapter of it."""
    reference("llama_cpp")
    path = tmp_path_factory.mktemp("lora")
    base = write_folder(path / "tied", config=NO_EXPERTS, optional=())
    adapter = write_adapter(path / "adapter", base, linear_layers(base, ("q_proj", "up_proj")))
    return convert_model(base, path / "m.gguf", kind="q8_0").path, convert_adapter(adapter).path


def test_commands_take_adapters(pair: tuple[str, str], mtkit: Run) -> None:
    model, adapter = pair
    common = ("-m", model, "--threads", 1)
    asked = ("generate", "Hello", *common, "-n", 8, "--json", "-q")
    plain, none, one, other = (
        json.loads(mtkit(*asked, *more).stdout)
        for more in ((), ("--lora", f"{adapter}:0"), ("--lora", adapter),
                     ("--lora-scaled", f"{adapter}:0.5", "--lora", f"{adapter}:0.5"))
    )  # fmt: skip
    assert plain["text"] == none["text"] != one["text"] == other["text"]
    assert one["text"] == generate("Hello", model=model, lora=[adapter], n_predict=8).text
    told = [
        mtkit("perplexity", "-p", "Hello world, how are you?", "--ctx", 8, *common, *more).stdout
        for more in ((), ("--lora", adapter))
    ]
    assert told[0] != told[1]


def test_a_draft_runs_without_them(pair: tuple[str, str]) -> None:
    """The adapter is the model's: what a draft of the same file proposes differs, the text not."""
    model, adapter = pair
    options = {"model": model, "lora": [adapter], "n_predict": 24, "threads": 1, "kv_type": "bf16"}
    wanted = generate("Hello", **options)
    found = generate("Hello", draft=model, draft_auto=False, **options)
    assert found.ids == wanted.ids


def test_a_session_belongs_to_its_adapters(pair: tuple[str, str]) -> None:
    model, adapter = pair
    hashes = [
        model_hash(ModelHeader(model, lora))
        for lora in ((), (adapter,), (f"{adapter}:0.5",), (adapter, adapter))
    ]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.gguf", ("a.gguf", 1.0)),
        ("a.gguf:0.5", ("a.gguf", 0.5)),
        ("C:\\a.gguf", ("C:\\a.gguf", 1.0)),
        ("a:b:-2", ("a:b", -2.0)),
        (":2", (":2", 1.0)),
    ],
)
def test_file_and_scale(text: str, found: tuple[str, float]) -> None:
    assert parse_adapter(text) == found


@pytest.mark.parametrize("scale", ["nan", "inf", "1e9"])
def test_scales_that_are_none(scale: str) -> None:
    with pytest.raises(UsageError, match="lora: is "):
        parse_adapter(f"a.gguf:{scale}")


BROKEN: list[tuple[str, type[MtkitError], str]] = [
    ("model", UnsupportedError, "is not a LoRA adapter"),
    ("kind", UnsupportedError, "is not a LoRA adapter"),
    ("architecture", UnsupportedError, "is an adapter of 'qwen2', but the model is 'llama'"),
    ("alpha", FormatError, "adapter.lora.alpha: is not a finite f32"),
    ("alpha nan", FormatError, "adapter.lora.alpha: is not a finite f32"),
    ("invocation", UnsupportedError, "begins behind certain tokens"),
    ("half", FormatError, "there is no tensor 'blk.0.attn_q.weight.lora_b'"),
    ("name", UnsupportedError, "which the model does not have"),
    ("norm", UnsupportedError, "which llama.cpp does not add"),
    ("vector", UnsupportedError, "do not fit"),
    ("shape", UnsupportedError, "do not fit [64, 64]"),
    ("rank", UnsupportedError, "do not fit [64, 64]"),
    ("type", UnsupportedError, "has the type I32"),
    ("tied", UnsupportedError, "adapts an embedding that serves as the output"),
    ("empty", UnsupportedError, "holds no tensors"),
]


def broken(path: Path, adapter: str, how: str) -> None:
    """Write an adapter that does not fit; without the checks most end llama.cpp's process."""
    file = open_gguf(adapter)
    keys = {
        name: Key(name, file.metadata.type_name(name), value)
        for name, value in file.metadata.items()
    }
    tensors = {
        one.name: NewTensor(one.name, one.shape, one.type, bytes(file.tensor_data(one)))
        for one in file.tensors
    }
    a, b = "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b"
    norm, embedding = "blk.0.attn_norm.weight", "token_embd.weight"

    def put(name: str, *shape: int, kind: int = 0) -> None:
        size = int(np.prod(shape)) * 4
        tensors[name] = NewTensor(name, shape, TENSOR_TYPES[kind], bytes(size))

    def key(name: str, kind: str, value: object) -> None:
        keys[name] = Key(name, kind, value)

    def renamed(to: str) -> None:
        tensors[f"{to}.lora_a"] = replace(tensors.pop(a), name=f"{to}.lora_a")
        tensors[f"{to}.lora_b"] = replace(tensors.pop(b), name=f"{to}.lora_b")

    {
        "kind": lambda: key("adapter.type", "u32", 1),
        "architecture": lambda: key("general.architecture", "string", "qwen2"),
        "alpha": lambda: key("adapter.lora.alpha", "u32", 8),
        "alpha nan": lambda: key("adapter.lora.alpha", "f32", float("nan")),
        "invocation": lambda: key("adapter.alora.invocation_tokens", "u32[]", [1]),
        "half": lambda: tensors.pop(b),
        "name": lambda: renamed("blk.9.attn_q.weight"),
        "norm": lambda: put("blk.0.attn_norm.weight", 64),
        "vector": lambda: (put(f"{norm}.lora_a", 64, 4), put(f"{norm}.lora_b", 4, 1)),
        "shape": lambda: put(a, 32, 4),
        "rank": lambda: put(b, 5, 64),
        "type": lambda: put(a, 64, 4, kind=26),
        "tied": lambda: (put(f"{embedding}.lora_a", 4, 8), put(f"{embedding}.lora_b", 4, 64)),
        "empty": tensors.clear,
    }[how]()  # fmt: skip
    write_gguf(str(path), keys.values(), tensors.values())


@pytest.mark.parametrize(("how", "kind", "what"), BROKEN)
def test_adapters_that_do_not_fit(
    how: str, kind: type[MtkitError], what: str, pair: tuple[str, str], tmp_path: Path
) -> None:
    model, adapter = pair
    path = tmp_path / "broken.gguf"
    if how == "model":
        shutil.copyfile(model, path)
    else:
        broken(path, adapter, how)
    with pytest.raises(kind) as caught:
        generate("Hello", model=model, lora=[str(path)], n_predict=1)
    assert what in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("value", "at"),
    [(np.nan, slice(None)), (np.nan, 5), (-np.inf, -1), (3e38, slice(None))],
)
def test_nan_is_an_error(value: float, at: Any, pair: tuple[str, str], tmp_path: Path) -> None:
    """In place of the first token again and again; one row of logits is enough."""
    model, adapter = pair
    file, path = open_gguf(adapter), tmp_path / "nan.gguf"
    data = bytearray(Path(adapter).read_bytes())
    for end in (".lora_a", ".lora_b"):
        tensor = file.names[f"blk.1.ffn_up.weight{end}"]
        start = file.data_offset + tensor.offset
        values = np.frombuffer(data, "<f4", tensor.n_elements, start)
        values[at if end == ".lora_b" else slice(None)] = value
    path.write_bytes(data)
    with pytest.raises(UnsupportedError, match=r"computes NaN; mtkit check --deep"):
        generate("Hello", model=model, lora=[str(path)], n_predict=1)


def test_an_error_is_one_line(pair: tuple[str, str], tmp_path: Path, mtkit: Run) -> None:
    model, adapter = pair
    cut = tmp_path / "cut.gguf"
    with open(adapter, "rb") as file:
        cut.write_bytes(file.read()[:-100])
    asked = ("generate", "Hello", "-m", model, "-n", 1, "--lora")
    one_line(mtkit(*asked, cut), 3)
    one_line(mtkit(*asked, tmp_path / "none.gguf"), 2)
    line = one_line(mtkit(*asked, tmp_path), 2)
    assert line.endswith("is a folder, llama.cpp adds a GGUF; mtkit convert makes one from it\n")


def test_an_embedding_of_an_untied_model(tmp_path: Path) -> None:
    """As mergekit makes them; the rows of A are looked up."""
    base = write_folder(tmp_path / "base", config=NO_EXPERTS, optional=("lm_head.weight",))
    model = convert_model(base, tmp_path / "m.gguf", kind="f32").path
    names = open_gguf(model).names
    vocab = names["token_embd.weight"].shape[1]
    random = np.random.default_rng(3)
    a, b = (random.normal(size=(size, 4)).astype("<f4") for size in (vocab, 64))
    parts = {"token_embd.weight.lora_a": a, "token_embd.weight.lora_b": b}
    tensors = [
        NewTensor(name, (4, len(array)), TENSOR_TYPES[0], array.tobytes())
        for name, array in parts.items()
    ]
    keys = [
        Key("general.architecture", "string", "llama"), Key("general.type", "string", "adapter"),
        Key("adapter.type", "string", "lora"), Key("adapter.lora.alpha", "f32", 4.0),
    ]  # fmt: skip
    path = str(tmp_path / "a.gguf")
    write_gguf(path, keys, tensors)
    embedding = names["token_embd.weight"]
    table = np.frombuffer(open_gguf(model).tensor_data(embedding), "<f4").reshape(vocab, -1)
    other = changed(model, tmp_path / "other.gguf")
    data = bytearray(other.read_bytes())
    file = open_gguf(str(other))
    at = file.data_offset + file.names["token_embd.weight"].offset
    data[at : at + table.nbytes] = (table + a @ b.T).tobytes()
    other.write_bytes(data)
    assert distance(found_logits(model, path), found_logits(str(other))) < 1e-4
