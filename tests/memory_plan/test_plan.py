"""The plan of a model's memory is what llama.cpp allocates, within limits that the kernel sets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llm_models import OWN, latent, own, tiny
from support import FIXTURES, Run, reference

import mtkit as package
from mtkit.errors import FormatError, ResourceError, UsageError
from mtkit.gguf.file import Tensor
from mtkit.gguf.types import TENSOR_TYPES, TensorType
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes
from mtkit.llm.header import ModelHeader
from mtkit.llm.threads import cores
from mtkit.memory_plan import plan as memory
from mtkit.memory_plan.cache import model_layers
from mtkit.memory_plan.plan import Plan, PlanSettings, check_fits, is_repacked, memory_limits
from mtkit.settings import LoadSettings

MODEL = os.path.join(os.path.dirname(package.__file__), "data", "default-model.gguf")


def allocated(path: Path, load: LoadSettings | None = None, **options: Any) -> dict[str, float]:
    """What llama.cpp's log says of its buffers, in MiB."""
    from mtkit.llama import Context, ContextSettings, Model, log

    lines: list[str] = []
    taken = log.take

    def take(level: int, text: bytes | None, data: object) -> None:
        lines.append((text or b"").decode("utf-8", "replace"))
        taken(level, text, data)

    log.take = take
    from mtkit.llama import shared_library as backend_library

    lib = backend_library.library()
    callback = lib.llama_log_callback(take)
    lib.llama_log_set(callback, None)
    try:
        with Model(str(path), load) as model, Context(model, ContextSettings(**options)):
            pass
    finally:
        log.take = taken
        lib.llama_log_set(backend_library._modules["log"], None)
    found = {}
    for kind in ("KV", "RS", "compute", "model"):
        sizes = re.findall(rf"{kind} buffer size\s*=\s*([\d.]+) MiB", "".join(lines))
        found[kind] = sum(map(float, sizes))
    return found


@pytest.mark.parametrize("arch", ["llama", "qwen2", "minicpm", "gemma2", "gemma3", "mamba", "t5"])
@pytest.mark.parametrize(("kv_type", "swa_full"), [("f16", True), ("q8_0", False)])
def test_cache_and_weights_are_what_is_allocated(arch: str, kv_type: str, swa_full: bool) -> None:
    if arch == "mamba" and kv_type != "f16":
        pytest.skip("the state has no type to choose")
    if arch == "t5" and kv_type != "f16":
        pytest.skip("an encoder's keys and values are not quantized")
    path = tiny(arch)
    n_ctx, n_ubatch = 1000, 64
    flash = "auto" if arch == "t5" else "on"
    seen = allocated(path, n_ctx=n_ctx, n_batch=n_ubatch, n_ubatch=n_ubatch, kv_type=kv_type,
                     swa_full=swa_full, flash_attention=flash)  # fmt: skip
    settings = PlanSettings(n_ctx=n_ctx, n_ubatch=n_ubatch, kv_type=kv_type, swa_full=swa_full)
    plan = ModelHeader(str(path)).plan(settings)
    mib = 1 << 20
    assert plan.cache / mib == pytest.approx(seen["KV"] + seen["RS"], abs=0.011)
    assert plan.weights / mib == pytest.approx(seen["model"], rel=0.01)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_K_S", "Q2_K", "IQ4_NL", "Q8_0", "Q5_K_M", "Q6_K"])
def test_weights_that_are_laid_out_anew(kind: str, tmp_path: Path) -> None:
    """On this machine's processor, mapped and not; an embedding that is the head is copied, too."""
    reference("llama_cpp")
    from mtkit.llm.quantization import file_type, quantize
    from mtkit.settings import LoadSettings

    source, target = tiny(n_embd=256, n_ff=512), tmp_path / "model.gguf"
    for pure in (False, True):
        quantize(str(source), str(target), file_type(kind), pure=pure, force=True)
        header = ModelHeader(str(target))
        for mmap in (True, False):
            for repack in (True, False):
                seen = allocated(target, LoadSettings(mmap=mmap, repack=repack), n_ctx=256)
                plan = header.plan(PlanSettings(n_ctx=256, mmap=mmap, repack=repack))
                planned = (plan.weights + plan.repacked) / (1 << 20)
                assert planned == pytest.approx(seen["model"], rel=0.01, abs=0.02)


@pytest.mark.parametrize(
    ("features", "kinds"),
    [
        ({"avx2"}, {"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"}),
        ({"avx2", "avx512f"}, {"Q4_0", "Q4_K", "IQ4_NL", "MXFP4", "Q2_K"}),
        ({"asimddp"}, {"Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "Q1_0", "IQ4_NL", "MXFP4"}),
        (set(), set()),
    ],
)
def test_types_that_are_laid_out_anew(features: set[str], kinds: set[str]) -> None:
    def made(kind: TensorType, rows: int) -> Tensor:
        return Tensor("blk.0.ffn_up.weight", (256, rows), kind, 0, 256 * rows, 1, (0, 0, 0))

    types = {one.name: one for one in TENSOR_TYPES.values()}
    assert {name for name, one in types.items() if is_repacked(made(one, 8), features)} == kinds
    assert not any(is_repacked(made(one, 6), features) for one in types.values())


def test_what_a_process_holds_is_planned() -> None:
    """Peak resident memory of generate, within a tenth: most of it is the program itself."""
    reference("llama_cpp")
    # What a process held before it became another program counts as its own to the system.
    code = (
        "import atexit, sys; from mtkit.cli import main;"
        "atexit.register(lambda: print(open('/proc/self/status').read())); main(sys.argv[1:])"
    )
    line = [
        sys.executable,
        "-c",
        code,
        "generate",
        "Hello",
        "-m",
        MODEL,
        "--ctx",
        "2048",
        "-n",
        "2",
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    peak = int(re.findall(r"VmHWM:\s*(\d+) kB", done.stdout)[0]) * 1024
    plan = ModelHeader(MODEL).plan(PlanSettings(n_ctx=2048))
    assert plan.host == pytest.approx(peak, rel=0.1)


@pytest.mark.parametrize("flash", ["on", "off"])
@pytest.mark.parametrize(("n_ctx", "n_ubatch"), [(256, 256), (512, 512), (4096, 512), (20000, 100)])
def test_room_to_compute(n_ctx: int, n_ubatch: int, flash: str) -> None:
    """Within a quarter of llama.cpp's own number: 10 % below to 25 % above on these."""
    names = ("llama", "qwen3", "gemma2", "gemma3", "mamba")
    shaped = tiny(n_embd=512, n_layer=8, n_ff=2048), tiny("gemma3", n_layer=7, swa=40), latent()
    for path in (*map(tiny, names), *shaped, *map(own, OWN)):
        seen = allocated(path, n_ctx=n_ctx, n_batch=n_ubatch, n_ubatch=n_ubatch,
                         flash_attention=flash)  # fmt: skip
        settings = PlanSettings(n_ctx=n_ctx, n_ubatch=n_ubatch, flash_attention=flash == "on")
        plan = ModelHeader(str(path)).plan(settings)
        assert 0.9 <= plan.compute / (1 << 20) / seen["compute"] <= 1.26, path


@pytest.mark.parametrize("n_ctx", [512, 1024, 4096])
def test_room_to_compute_of_an_encoder(n_ctx: int) -> None:
    path = tiny("t5")
    seen = allocated(path, n_ctx=n_ctx, n_batch=n_ctx, n_ubatch=n_ctx, flash_attention="auto")
    plan = ModelHeader(str(path)).plan(PlanSettings(n_ctx=n_ctx))
    assert 0.9 <= plan.compute / (1 << 20) / seen["compute"] <= 1.26


def test_windows_by_layer_and_compressed_caches() -> None:
    for path in (tiny("gemma3", n_layer=7, swa=40), tiny("gemma2", n_layer=3, swa=40), latent()):
        seen = allocated(path, n_ctx=2000, n_batch=64, n_ubatch=64, swa_full=False)
        settings = PlanSettings(n_ctx=2000, n_ubatch=64, swa_full=False)
        plan = ModelHeader(str(path)).plan(settings)
        assert plan.cache / (1 << 20) == pytest.approx(seen["KV"], abs=0.011), path
        assert seen["KV"] > 0.1


def test_own_models() -> None:
    for name in OWN[2:4]:
        seen = allocated(own(name), n_ctx=256)
        plan = ModelHeader(str(own(name))).plan(PlanSettings(n_ctx=256))
        assert plan.cache / (1 << 20) == pytest.approx(seen["KV"], abs=0.011)


def of(architecture: str, **keys: Any) -> list[tuple[str, int, int, int, int]]:
    metadata: dict[str, Any] = {"general.architecture": architecture}
    for key, value in keys.items():
        metadata[f"{architecture}.{key.replace('__', '.')}"] = value
    return [(x.kind, x.key, x.value, x.window, x.state) for x in model_layers(metadata)]


def test_layers_of_other_kinds() -> None:
    base = {"block_count": 2, "embedding_length": 64, "attention__head_count": 4}
    assert of("llama", **base) == [("attention", 64, 64, 0, 0)] * 2
    by_layer = of("openelm", **base, attention__head_count_kv=[1, 2])
    assert [row[1] for row in by_layer] == [16, 32]
    # MLA: one head of the latent vector and the rotary part; no values are kept.
    latent = of("deepseek2", **base, attention__head_count_kv=1, attention__key_length=576,
                attention__value_length=512, attention__key_length_mla=192)  # fmt: skip
    assert latent == [("compressed", 576, 0, 0, 0)] * 2
    hybrid = of("jamba", **base, attention__head_count_kv=[0, 2], ssm__inner_size=128,
                ssm__state_size=16, ssm__conv_kernel=4)  # fmt: skip
    assert hybrid == [("recurrent", 0, 0, 0, 3 * 128 + 16 * 128), ("attention", 32, 32, 0, 0)]
    rwkv = of("rwkv7", block_count=1, embedding_length=64, wkv__head_size=16)
    assert rwkv == [("recurrent", 0, 0, 0, 2 * 64 + 64 * 16)]
    given = of("gemma3", **base, attention__sliding_window=7,
               attention__sliding_window_pattern=[True, False])  # fmt: skip
    assert [row[3] for row in given] == [7, 0]
    assert of("llama", block_count=1 << 50, embedding_length=1) == []


def test_gpu_layers_leave_the_main_memory() -> None:
    header = ModelHeader(str(tiny("llama")))
    whole, part, none = (header.plan(PlanSettings(gpu_layers=n)) for n in (-1, 2, 0))
    assert none.gpu == 0
    assert 0 < part.gpu < whole.gpu
    assert [layer.is_on_gpu for layer in part.layers] == [False, True]
    assert none.host - whole.host == whole.gpu


def sparse(path: Path, size: int) -> Path:
    """Write a GGUF whose one large tensor is a hole in the file."""
    width = 1 << 16
    rows = size // (4 * width)
    keys = [
        Key("general.architecture", "string", "llama"),
        Key("llama.block_count", "u32", 1),
        Key("llama.embedding_length", "u32", width),
        Key("llama.context_length", "u32", 64),
        Key("llama.attention.head_count", "u32", 1),
    ]
    small = NewTensor("token_embd.weight", (width, 1), TENSOR_TYPES[0], bytes(4 * width))
    data = gguf_bytes(keys, [small])
    old = (1).to_bytes(8, "little")
    at = data.rindex((width).to_bytes(8, "little") + old) + 8
    data = data[:at] + rows.to_bytes(8, "little") + data[at + 8 :]
    with path.open("wb") as file:
        file.write(data)
        file.truncate(len(data) + size)
    return path


@pytest.mark.parametrize("command", ["generate", "chat"])
def test_too_large_for_the_address_space(tmp_path: Path, command: str) -> None:
    reference("llama_cpp")
    path = sparse(tmp_path / "large.gguf", 3 << 30)
    script = (
        "import resource, runpy, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "sys.argv = ['mtkit', *sys.argv[1:]]\n"
        "runpy.run_module('mtkit', run_name='__main__')\n"
    )
    argv = [sys.executable, "-c", script, command, "-m", str(path)]
    argv += ["hello"]
    done = subprocess.run(argv, capture_output=True, check=False, input=b"hello\n", timeout=60)
    assert done.returncode == 5, done.stderr
    assert done.stderr.count(b"\n") == 1
    # A mapping of the file itself can be what is refused first.
    assert b"large.gguf" in done.stderr


def test_too_large_for_the_machine(tmp_path: Path, mtkit: Run) -> None:
    path = sparse(tmp_path / "large.gguf", 3 << 40)
    done = mtkit("generate", "hello", "-m", path)
    assert done.returncode == 5, done.stderr
    assert b"weights 3298535 MB" in done.stderr


def test_a_vocabulary_is_no_model(mtkit: Run) -> None:
    done = mtkit("generate", "hello", "-m", FIXTURES / "bbpe-8k" / "vocab.gguf")
    assert done.returncode == 4, done.stderr
    assert b"a vocabulary but no weights" in done.stderr


def test_shards_that_are_missing(tmp_path: Path) -> None:
    keys = [
        Key("general.architecture", "string", "llama"),
        Key("llama.block_count", "u32", 1),
        Key("split.no", "u16", 0),
        Key("split.count", "u16", 2),
        Key("split.tensors.count", "i32", 2),
    ]
    tensor = NewTensor("token_embd.weight", (4, 1), TENSOR_TYPES[0], bytes(16))
    path = tmp_path / "m-00001-of-00002.gguf"
    path.write_bytes(gguf_bytes(keys, [tensor]))
    with pytest.raises(FormatError, match=r"1 of 2 files is missing.*m-00002-of-00002"):
        ModelHeader(str(path))
    keys[2] = Key("split.no", "u16", 1)
    second = tmp_path / "m-00002-of-00002.gguf"
    second.write_bytes(gguf_bytes(keys, [tensor]))
    with pytest.raises(UsageError, match=r"is file 2 of 2.*m-00001-of-00002"):
        ModelHeader(str(second))


def test_plan_command(mtkit: Run) -> None:
    path = tiny("llama")
    rows = mtkit("inspect", path, "--plan", "--ctx", 300).stdout.decode().splitlines()
    assert "plan\tn_ctx\t512" in rows
    assert "layer\t0\tattention\t512\t262144\tCPU" in rows
    made = json.loads(mtkit("inspect", path, "--plan", "--json", "-ngl", "-1").stdout)
    assert made["schema"] == "mtkit.plan/1"
    assert made["gpu"] > made["weights_on_gpu"] > 0


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(memory, "CGROUP_ROOT", str(tmp_path))
    monkeypatch.setattr(memory, "CGROUP_MEMBERSHIP", str(tmp_path / "membership"))
    return tmp_path


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def test_no_groups_no_limits(root: Path) -> None:
    assert memory.free_in_groups(5) == []
    assert memory.allowed_cores() == float("inf")
    group(root, memory__max="max", cpu__max="max 100000", membership="0::/\n")
    assert memory.free_in_groups(5) == []
    assert memory.allowed_cores() == float("inf")


def test_second_version(root: Path) -> None:
    group(root, membership="0::/user.slice/own.scope")
    group(root / "user.slice", memory__max="9000", memory__current="5000",
          memory__stat="anon 1000\nfile 3500\nfile_mapped 7", cpu__max="250000 100000")  # fmt: skip
    group(root / "user.slice" / "own.scope", memory__max="max", cpu__max="max 100000")
    assert memory.free_in_groups(1) == [9000 - 1500]
    assert memory.allowed_cores() == 2.5
    group(root / "user.slice" / "own.scope", memory__max="700", cpu__max="50000 100000")
    assert memory.free_in_groups(100) == [600, 7500]
    assert memory.allowed_cores() == 0.5
    assert cores() == 1


def test_a_container_has_its_group_at_the_root(root: Path) -> None:
    group(root, membership="0::/../../elsewhere", memory__max="4000")
    assert memory.free_in_groups(1500) == [2500]


def test_first_version(root: Path) -> None:
    group(root, membership="5:cpu,cpuacct:/a\n4:memory:/a/b\n2:pids:/x\n0::/")
    group(root / "memory", memory__limit_in_bytes=str((1 << 63) - 4096))
    group(root / "memory" / "a" / "b", memory__limit_in_bytes="8000", memory__usage_in_bytes="6000",
          memory__stat="cache 1\ntotal_cache 5000")  # fmt: skip
    group(root / "cpu" / "a", cpu__cfs_quota_us="300000", cpu__cfs_period_us="100000")
    assert memory.free_in_groups(1) == [7000]
    assert memory.allowed_cores() == 3.0
    group(root / "cpu" / "a", cpu__cfs_quota_us="-1")
    assert memory.allowed_cores() == float("inf")


@pytest.mark.parametrize("text", ["", "x", "-5", "\xff", "1e9", "0" * 50 + "x"])
def test_damaged_files_are_no_limits(root: Path, text: str) -> None:
    (root / "membership").write_text(text)
    (root / "memory.max").write_text(text)
    (root / "cpu.max").write_text(text)
    assert memory.free_in_groups(0) == []
    assert memory.allowed_cores() == float("inf")


def test_a_model_beyond_the_groups_limit_is_refused(root: Path) -> None:
    group(root, membership="0::/a")
    group(root / "a", memory__max=str(100 << 20), memory__current="0", memory__stat="file 0")
    assert ("the control group", 100 << 20) in [(one.name, one.free) for one in memory_limits()]
    check_fits(Plan(256, 50 << 20, 0, (), 0, process=16 << 20), "m")
    with pytest.raises(ResourceError, match="the control group has 105 MB left"):
        check_fits(Plan(256, 90 << 20, 0, (), 0, process=16 << 20), "m")
