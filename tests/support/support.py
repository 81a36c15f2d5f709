"""Where tests find data: own fixtures in the repository, the shared folder, references.

``shared(path)`` gives the path of a file in the shared folder, unpacked into a cache folder when
it is stored as .xz or .gz; the test is skipped with a plain reason where the folder is absent,
and fails where ``MTKIT_REQUIRE_SHARED`` is set. ``reference(name)`` imports a reference library the
same way: missing is a skip, with ``MTKIT_REQUIRE_REFERENCE`` set it is a failure.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

Run = Callable[..., subprocess.CompletedProcess[bytes]]
"""What the fixture ``mtkit`` gives: it runs the command line."""
TESTS = Path(__file__).parents[1]
FIXTURES = TESTS / "fixtures"
SHARED = Path(os.environ.get("MTKIT_SHARED") or TESTS.parent.parent / "shared")
CACHE = Path(
    os.environ.get("MTKIT_TEST_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mtkit" / "tests"
)

VOCABULARIES = (
    "bert-bge", "bpe-pairs", "command-r", "deepseek-llm", "falcon", "gemma-4", "gpt-2",
    "llama-bpe", "llama-spm", "nomic-bert-moe", "plamo2-synth", "qwen35", "rwkv-world",
    "starcoder",
)  # fmt: skip
"""The files ``gguf-vocab/ggml-vocab-NAME.gguf`` of the shared folder."""


def absent(reason: str, variable: str) -> None:
    """Skip with a reason, or fail where the variable demands the thing."""
    if os.environ.get(variable):
        pytest.fail(f"{reason} ({variable} is set)")
    pytest.skip(reason)


def shared(path: str) -> Path:
    """Return the path of a shared file (named without .xz or .gz), unpacked if need be."""
    stored = SHARED / path
    if stored.exists():
        return stored
    for suffix, module in ((".xz", lzma), (".gz", gzip)):
        packed = stored.with_name(stored.name + suffix)
        if packed.exists():
            key = hashlib.sha256(f"{packed}{packed.stat().st_size}".encode()).hexdigest()[:12]
            unpacked = CACHE / key / stored.name
            if not unpacked.exists():
                unpacked.parent.mkdir(parents=True, exist_ok=True)
                part = unpacked.with_name(f"{stored.name}.{os.getpid()}.part")
                with module.open(packed) as file:
                    part.write_bytes(file.read())
                part.replace(unpacked)
            return unpacked
    absent(f"shared file {path} is not here", "MTKIT_REQUIRE_SHARED")
    raise AssertionError


def shared_tokenizer(name: str) -> Path:
    """Return a folder with the unpacked files of one shared tokenizer."""
    folder = SHARED / "tokenizers" / "tokenizers" / name
    if not folder.is_dir():
        absent(f"shared tokenizer {name} is not here", "MTKIT_REQUIRE_SHARED")
    out = CACHE / "tokenizers" / name
    for stored in sorted(folder.iterdir()):
        target = out / stored.name.removesuffix(".xz")
        if target.exists() and target.stat().st_mtime >= stored.stat().st_mtime:
            continue
        out.mkdir(parents=True, exist_ok=True)
        data = stored.read_bytes()
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        part.write_bytes(lzma.decompress(data) if stored.suffix == ".xz" else data)
        part.replace(target)
    return out


def shared_json_lines(path: str) -> list[Any]:
    """Read a shared .jsonl or .jsonl.gz file."""
    stored = SHARED / path
    if not stored.exists():
        absent(f"shared file {path} is not here", "MTKIT_REQUIRE_SHARED")
    data = stored.read_bytes()
    text = (gzip.decompress(data) if stored.suffix == ".gz" else data).decode("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


@cache
def golden_inputs() -> list[str]:
    """Return the texts that stored answers of tokenizers count."""
    found: list[str] = json.loads(shared("tokenizers/golden/inputs.json").read_bytes())["inputs"]
    return found


def golden_names(kind: str) -> list[str]:
    """Return the tokenizers that have stored answers of a kind, or one that is absent."""
    end = f".{kind}.jsonl.gz"
    files = (SHARED / "tokenizers" / "golden").glob(f"*{end}")
    return sorted(file.name.removesuffix(end) for file in files) or ["none"]


def reference(name: str) -> ModuleType:
    """Import a reference library, or skip (fail where references are required)."""
    try:
        return importlib.import_module(name)
    except ImportError:
        absent(f"reference library {name} is not installed", "MTKIT_REQUIRE_REFERENCE")
        raise


def latest_transformers(name: str = "transformers") -> ModuleType:
    """Import transformers, or skip: 5.20, the last for Python 3.10, has older rules."""
    module = reference(name)
    version = importlib.import_module("transformers").__version__
    if tuple(map(int, version.split(".")[:2])) < (5, 21):
        pytest.skip(f"transformers {version} has older rules; 5.21 needs Python 3.11")
    return module


def llama_cpp_for(line: str) -> None:
    """Require llama-cpp-python where a command line runs it, as `reference` does."""
    if line.split(maxsplit=1)[0] in {"chat", "generate", "logits", "perplexity", "quantize"}:
        reference("llama_cpp")


def posix(name: str) -> Any:
    """Import a module that Windows does not have, or skip: no test module imports it as a whole."""
    return pytest.importorskip(name, reason=f"this system has no {name}")


def measured(*args: object) -> tuple[int, float, int, bytes, bytes]:
    """Run a program; return exit code, CPU seconds, peak memory in bytes, stdout, stderr."""
    script = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024,\n"
        "      len(done.stdout), flush=True)\n"
        "sys.stdout.buffer.write(done.stdout + done.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, args)], capture_output=True, check=True
    )
    head, _, rest = done.stdout.partition(b"\n")
    code, seconds, peak, size = head.split()
    return int(code), float(seconds), int(peak), rest[: int(size)], rest[int(size) :]


def one_line(done: subprocess.CompletedProcess[bytes], code: int) -> str:
    """Check an error: exit code, one line on stderr, nothing on stdout; return the line."""
    assert done.returncode == code, done.stderr
    assert done.stdout == b""
    text = done.stderr.decode()
    assert text.startswith("mtkit: ")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    return text


def at_level(name: str, *folders: str) -> dict[str, str]:
    """Return the environment of a process of a level of MTKIT_SIMD, which imports what this does.

    The test is skipped where this machine does not have the level.
    """
    native: Any = pytest.importorskip("mtkit._native")
    if name not in native.simd_levels():
        pytest.skip(f"this machine has no {name}")
    paths = os.pathsep.join([*folders, *filter(None, sys.path)])
    return {**os.environ, "MTKIT_SIMD": name, "PYTHONPATH": paths}
