"""``mtkit trim``: fewer ids, the same rows, the same tokens of texts of kept tokens."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from screens import check_screens
from support import Run, one_line, reference, shared

import mtkit as package
from mtkit.errors import AnswerNo, MtkitError, UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.draft import Draft, kept_keys
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.values import EMBEDDING, HEAD
from mtkit.gguf.writer import Key, NewTensor
from mtkit.llm import trim as trimming
from mtkit.llm.runner import open_model
from mtkit.llm.trim import trim
from mtkit.settings import ContextSettings, ModelSettings

KILLS = int(os.environ.get("MTKIT_KILLS") or 5)
F16 = TENSOR_TYPES[1]
TEXTS = ["Once upon a time, there was", "The model reads 1234 tokens.\n\n", "naïve 中文 🙂"]


@pytest.fixture(autouse=True)
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MTKIT_TRIAL", "0")


def models() -> list[Path]:
    reference("llama_cpp")
    names = [f"own/model/mtkit-docs-{name}.gguf" for name in ("target-q4_0", "draft-q8_0",
             "draft-bf16")]  # fmt: skip
    return [shared(name) for name in (*names, "models/stories260K/stories260K-f32.gguf")]


def opened(path: Path) -> Any:
    settings = ContextSettings(n_ctx=64, threads=1)
    runner = open_model(ModelSettings(str(path), settings), n_ctx=64)
    runner.open_context()
    return runner


def write(path: Path, trimmed: Any) -> Path:
    path.write_bytes(b"".join(trimmed.draft.chunks()))
    return path


@pytest.mark.parametrize("number", range(4))
def test_logits_of_kept_tokens_are_the_same_bits(tmp_path: Path, number: int) -> None:
    whole = models()[number]
    n_vocab = open_gguf(whole).names[EMBEDDING].shape[1]
    made = trim(str(whole), Random(number).sample(range(n_vocab), n_vocab // 8))
    ids = list(made.ids)
    assert len(ids) % 64 == 0
    assert len(ids) < n_vocab
    small = write(tmp_path / "small.gguf", made)
    before, after = open_gguf(whole), open_gguf(small)
    for tensor in before.tensors:
        old, new = before.tensor_data(tensor), after.tensor_data(after.names[tensor.name])
        if tensor.name in (EMBEDDING, HEAD):
            size = len(old) // n_vocab
            assert bytes(new) == b"".join(bytes(old[i * size : (i + 1) * size]) for i in ids)
        else:
            assert new == old
    text = Random(7).sample(range(len(ids)), 9)
    with opened(whole) as one, opened(small) as other:
        one.context.decode([ids[new] for new in text])
        other.context.decode(text)
        wanted = one.context.logits()[ids]
        assert np.array_equal(other.context.logits().view(np.uint32), wanted.view(np.uint32))
        assert other.model.n_vocab == len(ids)


def with_rows(path: Path, name: str) -> Path:
    """Write a vocabulary with an embedding of one column, and a head."""
    file = open_gguf(shared(f"gguf-vocab/ggml-vocab-{name}.gguf"))
    count = len(file.metadata["tokenizer.ggml.tokens"])
    rows = np.arange(count, dtype="<u2").tobytes()
    tensors = [NewTensor(one, (1, count), F16, rows) for one in (EMBEDDING, HEAD)]
    path.write_bytes(b"".join(Draft(kept_keys(file), tensors).chunks()))
    return path


SUPPORTED = ("bert-bge", "gpt-2", "llama-spm", "llama-bpe", "nomic-bert-moe", "rwkv-world")


@pytest.mark.parametrize("name", SUPPORTED)
def test_texts_of_kept_tokens_have_the_same_tokens(tmp_path: Path, name: str) -> None:
    """Of every kind of vocabulary; llama.cpp agrees where its loader needs no more than keys."""
    whole = with_rows(tmp_path / "whole.gguf", name)
    old = package.load(whole)
    some = [i for text in TEXTS for i in old.encode_ids(text)]
    count = open_gguf(whole).names[EMBEDDING].shape[1]
    wanted = [*some, *Random(name).sample(range(count), 900)]
    made = trim(str(whole), wanted, texts=TEXTS)
    assert made.checked > 500
    assert len(made.ids) < count
    small = write(tmp_path / "small.gguf", made)
    new = package.load(small)
    renamed = {number: at for at, number in enumerate(made.ids)}
    for text in TEXTS:
        ids = old.encode_ids(text)
        if old.unk_id not in ids:
            assert new.encode_ids(text) == [renamed[i] for i in ids]
            assert new.decode(new.encode_ids(text)) == old.decode(ids)
    for role in ("bos", "eos", "unk", "pad"):
        one, other = (getattr(each, f"{role}_id") for each in (old, new))
        assert other == (renamed[one] if one is not None else other)
    for at, number in enumerate(made.ids):
        assert new.id_to_token(at) == old.id_to_token(number)


@pytest.mark.parametrize("name", ["gpt-2", "llama-spm", "bert-bge"])
def test_llama_cpp_gives_the_same_tokens(tmp_path: Path, name: str) -> None:
    reference("llama_cpp")
    whole = with_rows(tmp_path / "whole.gguf", name)
    old = package.load(whole)
    made = trim(str(whole), [i for text in TEXTS for i in old.encode_ids(text)])
    small = write(tmp_path / "small.gguf", made)
    script = (
        "import json, llama_cpp, sys\n"
        "m = llama_cpp.Llama(sys.argv[1], vocab_only=True, verbose=False)\n"
        "print(json.dumps([m.tokenize(t.encode(), special=True) for t in json.loads(sys.argv[2])]))"
    )
    found = []
    for path in (whole, small):
        argv = [sys.executable, "-c", script, str(path), json.dumps(TEXTS)]
        done = subprocess.run(argv, capture_output=True, check=True, text=True)
        found.append(json.loads(done.stdout))
    renamed = {number: at for at, number in enumerate(made.ids)}
    assert found[1] == [[renamed[i] for i in ids] for ids in found[0]]


def test_a_difference_is_an_answer_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what tokens are made of, they do not come about."""
    whole = models()[0]
    monkeypatch.setattr(trimming.TokenParts, "closure", lambda _, ids: set(ids))
    old = package.load(whole)
    with pytest.raises(AnswerNo, match="would have other tokens"):
        trim(str(whole), old.encode_ids(TEXTS[0]), multiple=1)


def test_what_cannot_be_trimmed(tmp_path: Path) -> None:
    whole = str(models()[1])
    with pytest.raises(UsageError, match="no id 8192"):
        trim(whole, [1, 8192])
    file = open_gguf(whole)
    odd = Draft.of(file)
    odd.rename_tensor("blk.0.attn_norm.weight", "per_layer_token_embd.weight")
    count = file.names[EMBEDDING].shape[1]
    odd.tensors["m\n"] = NewTensor("m\n", (1, count), F16, bytes(2 * count))
    path = tmp_path / "odd.gguf"
    path.write_bytes(b"".join(odd.chunks()))
    with pytest.raises(UnsupportedError, match=r": tensor 'm\\n': not known how to cut it$"):
        trim(str(path), [1])
    with_rows(path, "plamo2-synth")
    with pytest.raises(UnsupportedError, match="'plamo2' is not cut"):
        trim(str(path), [1])


@pytest.mark.parametrize(
    "key",
    [
        Key("tokenizer.ggml.more_token_id", "i32", -1),
        Key("tokenizer.ggml.more_token_id", "u32", 1 << 30),
        Key("tokenizer.ggml.more_token_id", "string", "text"),
        Key("tokenizer.ggml.suppress_tokens", "i32[]", [-1, 5, 1 << 30]),
        Key("split.count", "string", "text"),
        Key("general.architecture", "u8", 1),
        *(
            Key(f"tokenizer.ggml.{name}", kind, value)
            for name in ("tokens", "scores", "token_type", "merges", "model", "pre")
            for kind, value in (("f32", 1.5), ("u32[]", [1, 2]), ("string", "x"), ("bool", True))
        ),
    ],
)
def test_odd_keys(tmp_path: Path, key: Key) -> None:
    """Ids that are none are left as they are; nothing but errors of mtkit."""
    draft = Draft.of(open_gguf(models()[1]))
    draft.set(key)
    path = tmp_path / "odd.gguf"
    path.write_bytes(b"".join(draft.chunks()))
    try:
        made = trim(str(path), [5])
    except MtkitError:
        return
    after = open_gguf(write(tmp_path / "small.gguf", made)).metadata[key.name]
    if key.name not in (f"tokenizer.ggml.{name}" for name in ("token_type", "merges", "pre")):
        assert list(after) == [made.ids.index(5)] if key.type == "i32[]" else after == key.value


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("name", ["scores", "token_type"])
def test_keys_that_a_model_can_do_without(tmp_path: Path, number: int, name: str) -> None:
    draft = Draft.of(open_gguf(models()[number]))
    draft.keys.pop(f"tokenizer.ggml.{name}", None)
    path = tmp_path / "model.gguf"
    path.write_bytes(b"".join(draft.chunks()))
    made = trim(str(path), [300])
    assert 300 in made.ids
    assert len(made.ids) >= 250  # bytes, by their type or as the letters that stand for them
    assert package.load(write(tmp_path / "small.gguf", made)).encode_ids("Hello!")


@pytest.mark.parametrize(
    ("name", "shape"), [(HEAD, ()), ("output.bias", (3,)), ("output.bias", (0,))]
)
def test_rows_of_another_number(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    draft = Draft.of(open_gguf(models()[1]))
    elements = 1 if not shape else shape[0]
    draft.tensors[name] = NewTensor(name, shape, TENSOR_TYPES[0], bytes(4 * elements))
    path = tmp_path / "model.gguf"
    path.write_bytes(b"".join(draft.chunks()))
    with pytest.raises(MtkitError):
        trim(str(path), [300])


def test_the_model_itself_can_be_the_new_one(mtkit: Run, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(models()[1].read_bytes())
    (tmp_path / "ids.txt").write_text("5\n7\n")
    done = mtkit("trim", path, "--keep", "ids.txt", "-o", path, "--force")
    assert done.returncode == 0
    assert open_gguf(path).names[EMBEDDING].shape[1] == len(package.load(path).spec.vocabulary)


def test_the_command_writes_a_model_and_a_map(mtkit: Run, tmp_path: Path) -> None:
    whole = models()[0]
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS * 9) + "\n", "utf-8")
    done = mtkit("trim", whole, "--corpus", "corpus.txt", "--coverage", "1", "-o", "small.gguf")
    assert (done.returncode, done.stderr) == (0, b"")
    path, before, after, large, less, where = done.stdout.decode().split()
    assert (path, before, where) == ("small.gguf", "8192", "small.ids.tsv")
    rows = [line.split("\t") for line in (tmp_path / where).read_text("utf-8").splitlines()]
    assert len(rows) == int(after) < 8192
    assert int(less) < int(large)
    old, new = package.load(whole), package.load(tmp_path / "small.gguf")
    renamed = {int(row[1]): int(row[0]) for row in rows}
    for text in TEXTS:
        assert new.encode_ids(text) == [renamed[i] for i in old.encode_ids(text)]
    argv = [sys.executable, "-m", "mtkit", "generate", TEXTS[0], "-m", "small.gguf", "-n", "5"]
    subprocess.run([*argv, "-q"], check=True, cwd=tmp_path, capture_output=True)
    (tmp_path / "ids.txt").write_text("".join(f"{old}\n" for old in renamed))
    options = ["--keep", "ids.txt", "-o", "again.gguf", "--map", "map.json", "--json"]
    document = json.loads(mtkit("trim", whole, *options).stdout)
    assert (document["schema"], document["ids"]) == ("mtkit.trim/1", len(rows))
    entries = json.loads((tmp_path / "map.json").read_text("utf-8"))["ids"]
    assert [(one["id"], one["old"]) for one in entries] == [(int(a), int(b)) for a, b, _ in rows]
    assert (tmp_path / "again.gguf").read_bytes() == (tmp_path / "small.gguf").read_bytes()
    check_screens("trim", whole, "--keep", tmp_path / "ids.txt", "--dry-run")


@pytest.mark.parametrize(
    ("args", "said", "code"),
    [
        (["-o", "new.gguf"], "--keep FILE or --corpus FILE", 2),
        (["--keep", "ids.txt"], "-o NEW.gguf", 2),
        (["--keep", "ids.txt", "--corpus", "ids.txt", "-o", "new.gguf"], "both say it", 2),
        (["--keep", "bad.txt", "-o", "new.gguf"], "there is no id 9999", 3),
        (["--keep", "none.txt", "-o", "new.gguf"], "no such file", 2),
        (["--corpus", "latin.txt", "-o", "new.gguf"], "not valid UTF-8", 3),
        (["--corpus", "empty.txt", "-o", "new.gguf"], "nothing to count", 2),
        (
            ["--corpus", "ids.txt", "--coverage", "nan", "-o", "new.gguf"],
            "is nan, but must be above 0",
            2,
        ),
        (
            ["--corpus", "ids.txt", "--coverage", "0", "-o", "new.gguf"],
            "is 0.0, but must be above 0",
            2,
        ),
        (["--keep", "ids.txt", "-o", "ids.txt", "--force"], "is the list of tokens", 2),
        (["--keep", "ids.txt", "-o", "new.gguf", "--map", "ids.txt"], "is the list of tokens", 2),
        (["--keep", "ids.txt", "-o", "bad.txt"], "already exists", 2),
        (["--corpus", "read-too-late.txt", "-o", "ids.txt"], "already exists", 2),
        (["--corpus", "read-too-late.txt", "-o", "new.gguf", "--map", "ids.txt"], "exists", 2),
        (["--keep", "ids.txt", "-o", "no/such/new.gguf"], "no such folder", 2),
        (["--keep", "ids.txt", "-o", "new.gguf", "--map", "./new.gguf"], "is the model itself", 2),
    ],
)
def test_what_is_refused(mtkit: Run, tmp_path: Path, args: list[str], said: str, code: int) -> None:
    (tmp_path / "ids.txt").write_text("5\n7\n")
    (tmp_path / "bad.txt").write_text("9999\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "empty.txt").write_bytes(b"")
    assert said in one_line(mtkit("trim", models()[1], *args), code)
    assert not list(tmp_path.glob("**/*.gguf*"))


def test_killed_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """``MTKIT_KILLS`` says how often."""
    (tmp_path / "ids.txt").write_text("5\n7\n")
    new = tmp_path / "out" / "new.gguf"
    new.parent.mkdir()
    argv = [sys.executable, "-m", "mtkit", "trim", str(models()[0]), "--keep",
            str(tmp_path / "ids.txt"), "-o", str(new), "--force"]  # fmt: skip
    began = time.monotonic()
    subprocess.run(argv, check=True, capture_output=True)
    took = time.monotonic() - began
    whole = {path.name: hashlib.sha256(path.read_bytes()).digest() for path in new.parent.iterdir()}
    assert set(whole) == {"new.gguf", "new.ids.tsv"}
    rng = Random(3)
    killed = 0
    for _ in range(KILLS):
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.4, 1.1) * took)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        for path in new.parent.iterdir():
            if path.name in whole:
                assert hashlib.sha256(path.read_bytes()).digest() == whole[path.name]
            else:
                assert path.name.endswith(".part")
                path.unlink()
    assert killed
