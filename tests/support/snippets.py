"""The blocks of code in the documents, and a folder with the files that their commands name."""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import llama2c_models
import pytest
from adapters import linear_layers, write_adapter
from importance import importance
from model_folders import write_weights

import mtkit

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
RUN = {"sh", "console", "python"}
SHOWN = {"text", "json", "py", "yaml", "nginx", "caddy", "toml", "js"}
"""Kinds of blocks that nobody types: layouts, answers, signatures, others' settings."""
_LARGE = {"-n 32768": "-n 4096", "-n 16384": "-n 2048"}
"""Numbers of ids that the small model does not have -> what it has."""
_FENCE = re.compile(r"^```(\S*)\n(.*?)^```", re.M | re.S)
_PRELUDE = """\
set -e
mtkit() {
  case "$1" in compare | diff) "$PYTHON" -m mtkit "$@" || [ $? = 1 ]; return;; esac  # 1: no
  if [ "$1" != serve ]; then "$PYTHON" -m mtkit "$@"; return; fi
  "$PYTHON" -m mtkit "$@" >serve.log 2>&1 &
  for i in $(seq 300); do
    if grep -q listening serve.log; then return; fi
    if ! kill -0 $! 2>/dev/null; then cat serve.log >&2; return 1; fi
    sleep 0.1
  done
  return 1
}
python() { "$PYTHON" "$@"; }
git() { cat corpus.txt; }
pip() { :; }
claude() { :; }
cline() { :; }
qwen() { :; }
aider() { :; }
make() { command make -n -C "$ROOT" "$@" >/dev/null; }
trap 'jobs -p | xargs -r kill 2>/dev/null || true' EXIT
"""


class Block(NamedTuple):
    """One fenced block of a page."""

    kind: str
    text: str
    line: int


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start()) + 1)
        for found in _FENCE.finditer(text)
    ]


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with the output that stands behind it."""
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def scripts(page: list[Block]) -> Iterator[str | Block]:
    """Yield what a page's reader does: scripts, what runs in one going on, and console blocks."""
    script = ""
    for block in page:
        if block.kind == "sh":
            script += block.text
        elif block.kind == "python":
            script += f"python - <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK\n"
        elif block.kind == "console":
            if script:
                yield script
            script = ""
            yield block
    if script:
        yield script


def run(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script of bash where the files are, with ``mtkit`` as what is tested."""
    home = {
        "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "none"),
        "XDG_CACHE_HOME": str(folder / "none"), "HF_HUB_CACHE": str(folder / "hub"),
        "HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "ROOT": str(ROOT), "PYTHON": sys.executable,
    }  # fmt: skip
    for large, small in _LARGE.items():
        script = script.replace(large, small)
    return subprocess.run(
        ["bash", "-c", _PRELUDE + script], cwd=folder, env={**os.environ, **home, **environment},
        input="Hello!\n", capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def _write_seeing(folder: Path, tokenizer: Path) -> None:
    """Write a small Gemma 3 with its encoder of pictures."""
    cases = json.loads(lzma.decompress((ROOT / "tests/data/projector_cases.json.xz").read_bytes()))
    case = cases["Gemma3ForConditionalGeneration"]
    shutil.copytree(tokenizer, folder)
    for name, fields in case["files"].items():
        (folder / name).write_text(json.dumps(fields))
    shapes = {name: tuple(shape) for name, (_, shape) in case["shards"][0].items()}
    shapes["language_model.model.embed_tokens.weight"] = (8192, 64)  # the case has none
    write_weights(folder / "model.safetensors", shapes, "BF16")


def make_files(folder: Path) -> None:
    """Make the files that the documents' commands name, small ones all."""
    fixtures, data = ROOT / "tests" / "fixtures", ROOT / "mtkit" / "data"
    hf, spm = fixtures / "bbpe-8k", fixtures / "spm-bpe"
    model = data / "default-model.gguf"
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")[:4000]
    for name in ("model", "small", "other", "models/one"):
        _copy(model, folder / f"{name}.gguf")
    allowed = ("ids", "ids-possible")
    mtkit.convert(model, folder / "Qwen3-0.6B", to="hf-model", allow_loss=allowed)
    layers = linear_layers(folder / "Qwen3-0.6B", ("q_proj", "up_proj"))
    write_adapter(folder / "adapter", folder / "Qwen3-0.6B", layers)
    for name in ("old", "new", "folder", "qwen3", "gpt2", "cl100k_base", "models/qwen3"):
        shutil.copytree(hf, folder / name)
    _write_seeing(folder / "gemma-3-4b-it", hf)
    repository = folder / "hub" / "models--ORG--NAME"
    shutil.copytree(hf, repository / "snapshots" / ("0" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        _copy(hf / name, folder / name)
    _copy(spm / "tokenizer.model", folder / "tokenizer.model")
    _copy(spm / "tokenizer.bin", folder / "tokenizer.bin")
    (folder / "stories260K.bin").write_bytes(llama2c_models.checkpoint())
    (folder / "tok512.bin").write_bytes(llama2c_models.vocabulary())
    for name in ("corpus", "book", "text", "chapter1", "chapter2", "de", "en", "zh"):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    (folder / "code.py").write_text("for i in range(10):\n    print(i)\n" * 10)
    (folder / "imatrix.gguf").write_bytes(importance(model))
    (folder / "books.txt.xz").write_bytes(lzma.compress(text.encode()))
    rows = "".join(json.dumps({"text": line, "prompt": line}) + "\n" for line in text.split("\n"))
    for name in ("prompts", "en", "zh", "data/1"):
        (folder / f"{name}.jsonl").parent.mkdir(exist_ok=True)
        (folder / f"{name}.jsonl").write_text(rows)
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    parquet.write_table(pyarrow.table({"text": text.split("\n\n")}), folder / "wiki.parquet")
    packed = pyarrow.compress(rows.encode(), "zstd", asbytes=True)
    (folder / "data" / "3.jsonl.zst").write_bytes(packed)
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello!"}]
    (folder / "chat.json").write_text(json.dumps(chat))
    (folder / "chat.jinja").write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
    (folder / "schema.json").write_text('{"type": "object", "properties": {}}')
    tool = {"name": "now", "description": "The time.", "parameters": {"type": "object"}}
    (folder / "tools.json").write_text(json.dumps([{"type": "function", "function": tool}]))
    (folder / "answer.txt").write_text('{"name": "now", "arguments": {}}')
    (folder / "keys.txt").write_text("a-key-of-mine\n")
    (folder / "vocab.txt").write_text("".join(f"{i}\n" for i in range(256)))
    (folder / ".config" / "fish" / "completions").mkdir(parents=True)
    for part in ("tests/fixtures", "mtkit/data"):
        shutil.copytree(ROOT / part, folder / part)
    _copy(ROOT / "LICENSE", folder / "LICENSE")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
