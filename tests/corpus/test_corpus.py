"""What ``mtkit corpus`` writes is each document encoded, in order, however it was read and cut."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import megatron
import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from support import Run, one_line

import mtkit
from mtkit.corpus import documents
from mtkit.corpus.documents import Reading, read_documents, units_of
from mtkit.corpus.job import Job, Parts
from mtkit.corpus.run import JobSettings, encode
from mtkit.errors import ResourceError, UsageError
from mtkit.tokenizer.load import load as mtkit_load

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = pytest.mark.slow

TOKENIZER = Path(__file__).parents[1] / "fixtures" / "bbpe-8k"
TEXTS = ["Hello, world!", "", "中文 café\n\tx", "<|endoftext|> a", "\u2028line", "x" * 300, "b\r\n"]
PACK = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstd.compress,
}


def json_lines(texts: list[str], name: str = "text") -> bytes:
    return b"".join(json.dumps({"id": 1, name: text}).encode() + b"\n" for text in texts)


def table(path: Path, texts: list[str], name: str = "text") -> None:
    parquet.write_table(pyarrow.table({name: texts}), path, row_group_size=3)


def read_bin(path: Path) -> list[list[int]]:
    """Read .bin and .idx by their layout."""
    index = path.with_suffix(".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, count, begins = struct.unpack_from("<QBQQ", index, 9)
    kind = np.dtype({4: "<i4", 8: "<u2"}[code])
    assert (version, begins) == (1, count + 1)
    lengths = np.frombuffer(index, "<i4", count, 34)
    pointers = np.frombuffer(index, "<i8", count, 34 + 4 * count)
    numbers = np.frombuffer(index, "<i8", count + 1, 34 + 12 * count)
    assert len(index) == 34 + 12 * count + 8 * (count + 1)
    assert list(numbers) == list(range(count + 1))
    data = path.read_bytes()
    assert len(data) == lengths.sum() * kind.itemsize
    return [
        np.frombuffer(data, kind, length, at).tolist()
        for at, length in zip(pointers, lengths, strict=True)
    ]


def expected(texts: list[str], end: list[int]) -> list[list[int]]:
    """Give the ids of the documents that have any."""
    tokenizer = mtkit.load(TOKENIZER)
    found = (tokenizer.encode_ids(text, add_special_tokens=False) for text in texts)
    return [[*ids, *end] for ids in found if ids]


@pytest.mark.parametrize("suffix", PACK)
def test_documents_of_every_kind(suffix, mtkit, tmp_path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / f"a.jsonl{suffix}").write_bytes(PACK[suffix](json_lines(TEXTS)))
    (folder / f"b.txt{suffix}").write_bytes(PACK[suffix](b"one\ntwo\n"))
    table(folder / "c.parquet", TEXTS)
    (folder / "d.log").write_text("left out")
    done = mtkit("corpus", "encode", folder, "-t", TOKENIZER, "--eod", "-o", tmp_path / "o.bin")
    assert done.returncode == 0, done.stderr
    end = [_tokenizer().eos_id]
    assert read_bin(tmp_path / "o.bin") == expected([*TEXTS, "one\ntwo\n", *TEXTS], end)
    rows = dict(line.split("\t") for line in done.stdout.decode().splitlines())
    assert rows["empty documents left out"] == "2"
    assert rows["files left out"] == "1"
    assert sorted(os.listdir(tmp_path)) == ["in", "o.bin", "o.idx"]


def _tokenizer() -> mtkit.Tokenizer:
    return mtkit.load(TOKENIZER)


@given(
    texts=st.lists(st.text(max_size=20).filter(lambda t: "\n" not in t and "\r" not in t)),
    size=st.integers(1, 60),
    closed=st.booleans(),
)
def test_ranges_lose_no_line_and_double_none(texts, size, closed, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("ranges") / "a.txt"
    content = "\n".join(texts).encode("utf-8", "replace") + b"\n" * closed
    path.write_bytes(content)
    if not content:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "_UNIT_BYTES", size)
        units, _ = units_of([str(path)], Reading(by_line=True))
    reading = Reading(by_line=True)
    found = [text for u in units for block in read_documents(u, reading) for text in block.texts]
    lines = content.split(b"\n")
    assert found == (lines if lines[-1] else lines[:-1])
    assert len(units) == -(-len(content) // size)


ODD = [
    b'{"text": "a"}',
    b'{"text": "\xc3\xa9"}',
    b' {"text": "b"}\t\r',
    b'{"text": "a"},{"text": "b"}',
    b"",
    b"\x0b ",
    b"[1",
    b"2]",
    b'{"text": "c"',
    b', "d": 1}',
    b'{"text": 1}',
    b'{"body": "x"}',
    b'"text"',
    b'{"text": "\xff"}',
    b'\xef\xbb\xbf{"text": "e"}',
    b'"\x00',
    b"\xe2\x80\xa8",
    b"1\x00",
    b'{"text": "\\ud800\xc2\x85"}',
    b'{"text": "x", "text": "y"}',
    b"[" * 5000,
    b"\xc2\xa0",
]


@given(
    lines=st.lists(st.sampled_from(ODD)), closed=st.booleans(), block=st.sampled_from([1, 30, 9999])
)
def test_lines_of_json_are_read_as_each_alone(lines, closed, block, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("odd") / "a.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n" * closed)
    good, bad = [], []
    at = 0
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if line.strip():
            is_text = isinstance(value, dict) and isinstance(value.get("text"), str)
            (good if is_text else bad).append((at, value["text"] if is_text else None))
        at += len(line) + 1
    if not path.stat().st_size:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "_BLOCK_BYTES", block)
        (unit,), _ = units_of([str(path)], Reading())
        blocks = list(read_documents(unit, Reading()))
    texts = [pair for b in blocks for pair in zip(b.places, b.texts, strict=True)]
    assert texts == good
    assert [at for b in blocks for at, _ in b.bad] == [at for at, _ in bad]


def test_every_output_holds_the_same(mtkit, tmp_path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(TEXTS * 50))
    for name in ("o.bin", "o.npy", "o.parquet", "o.arrow"):
        done = mtkit("corpus", "encode", "a.jsonl", "-t", TOKENIZER, "-o", name)
        assert done.returncode == 0, done.stderr
    wanted = expected(TEXTS * 50, [])
    assert read_bin(tmp_path / "o.bin") == wanted
    flat = np.load(tmp_path / "o.npy")
    assert flat.dtype == np.uint16
    assert flat.tolist() == [i for ids in wanted for i in ids]
    assert parquet.read_table(tmp_path / "o.parquet")["input_ids"].to_pylist() == wanted
    with pyarrow.ipc.open_file(tmp_path / "o.arrow") as reader:
        assert reader.read_all()["input_ids"].to_pylist() == wanted


def test_large_vocabularies_take_four_bytes(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("Hello, world!")
    units, _ = units_of([str(tmp_path / "a.txt")], Reading())
    job = Job(str(TOKENIZER / "tokenizer.json"), width=4)
    path = tmp_path / "o.bin"
    encode(job, units, str(path), JobSettings(), lambda done, total: None)
    assert read_bin(path) == expected(["Hello, world!"], [])
    path = tmp_path / "o.npy"
    encode(job, units, str(path), JobSettings(), lambda done, total: None)
    assert np.load(path).dtype == np.uint32


@pytest.mark.parametrize("width", [2, 4])
def test_megatrons_own_reader_reads_it(width, tmp_path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(TEXTS * 20))
    units, _ = units_of([str(tmp_path / "a.jsonl")], Reading())
    job = Job(str(TOKENIZER / "tokenizer.json"), width=width)
    path = tmp_path / "o.bin"
    encode(job, units, str(path), JobSettings(), lambda done, total: None)
    assert megatron.read(path) == expected(TEXTS * 20, [])


def test_counts_are_those_of_the_ids(mtkit, tmp_path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(TEXTS, "body"))
    (tmp_path / "b.ndjson").write_bytes(json_lines(TEXTS * 3, "body"))
    done = mtkit(
        "corpus", "count", "a.jsonl", "b.ndjson", "--field", "body", "-t", TOKENIZER,
        "-o", "f.json", "--jobs", 2,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "f.json").read_bytes())
    ids = expected(TEXTS * 4, [])
    counts = Counter(i for document in ids for i in document)
    assert found["counts"] == {str(i): counts[i] for i in sorted(counts)}
    assert found["tokens"] == counts.total()
    assert found["documents"] == len(ids)


def test_special_tokens_in_documents(mtkit, tmp_path) -> None:
    (tmp_path / "a.txt").write_text("a<|endoftext|>b")
    tokenizer = _tokenizer()
    for option, parse in ((), None), (("--no-parse-special",), False):
        mtkit("corpus", "encode", "a.txt", "-t", TOKENIZER, "-o", "o.npy", "--force", *option)
        wanted = tokenizer.encode_ids(
            "a<|endoftext|>b", add_special_tokens=False, parse_special=parse
        )
        assert np.load(tmp_path / "o.npy").tolist() == wanted


def test_kill_and_go_on(tmp_path) -> None:
    """However often it is killed, the same command ends with the same bytes."""
    random_ = random.Random(7)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(60):
        texts = [" ".join(random_.choices(TEXTS, k=40)) for _ in range(200)]
        (folder / f"{number:02}.jsonl").write_bytes(json_lines(texts))
    base = [sys.executable, "-m", "mtkit", "corpus", "encode", str(folder), "-t", str(TOKENIZER)]
    subprocess.run([*base, "-j", "1", "-o", "whole.bin"], cwd=tmp_path, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    parts = tmp_path / "o.bin.parts"
    kills = 0
    for _ in range(200):
        before = len(list(parts.glob("*.json")))
        process = subprocess.Popen(
            [*base, "-j", "2", "-o", "o.bin"], cwd=tmp_path, stdout=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        while kills < 5 and process.poll() is None:  # at least a part more each time
            if len(list(parts.glob("*.json"))) >= before + random_.randrange(1, 12):
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.01)
        if process.wait() == 0:
            break
        assert not (tmp_path / "o.bin").exists()
    assert kills == 5
    for suffix in (".bin", ".idx"):
        whole, resumed = (tmp_path / f"{name}{suffix}" for name in ("whole", "o"))
        assert whole.read_bytes() == resumed.read_bytes()
    assert not parts.exists()


def test_interrupted_says_how_to_go_on(tmp_path) -> None:
    with open(tmp_path / "a.txt", "w") as file:
        file.write("Hello, world! " * 4_000_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "mtkit", "corpus", "encode", "a.txt", "--lines", "-t", TOKENIZER,
         "-o", "o.npy"],
        cwd=tmp_path, stderr=subprocess.PIPE,
    )  # fmt: skip
    while not (tmp_path / "o.npy.parts" / "job.json").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert b"the same command resumes the work" in process.communicate()[1]
    assert process.returncode == 130
    assert not (tmp_path / "o.npy").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ended_workers_end(number, tmp_path) -> None:
    """They hold the pipe of the errors open, and would for ever; a long unit is not waited for."""
    packed = gzip.compress(json_lines(["some words and more"]) * 2_000_000, 1)
    for name in "abc":  # one waits
        (tmp_path / f"{name}.jsonl.gz").write_bytes(packed)
    command = [sys.executable, "-m", "mtkit", "corpus", "encode", ".", "--jobs", "2", "-o", "o.npy"]
    process = subprocess.Popen(
        [*command, "-t", TOKENIZER], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    parts = tmp_path / "o.npy.parts"
    until = time.monotonic() + 60
    while len(list(parts.glob("00*.part"))) < 2:
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert not list(parts.glob("00*.json"))
    if number == signal.SIGINT:  # of the others the next run removes what is left
        assert not list(parts.glob("*.part"))


BAD = {
    "is not JSON": b'{"text": "a"}\n{"text": \n',
    "has no field 'text'": b'{"text": "a"}\n{"body": "b"}\n',
    "its field 'text' is not a text": b'{"text": "a"}\n{"text": 7}\n',
    "lone surrogate": b'{"text": "a"}\n{"text": "\\ud800"}\n',
}


@pytest.mark.parametrize("what", BAD)
def test_bad_documents(what, mtkit, tmp_path) -> None:
    (tmp_path / "a.jsonl").write_bytes(BAD[what])
    done = mtkit("corpus", "encode", "a.jsonl", "-t", TOKENIZER, "-o", "o.npy")
    assert done.returncode == 3, done.stderr
    assert b"a.jsonl: line 2: " in done.stderr
    assert what.encode() in done.stderr
    assert not (tmp_path / "o.npy").exists()
    done = mtkit("corpus", "encode", "a.jsonl", "-t", TOKENIZER, "-o", "o.npy", "--skip-bad")
    assert b"bad documents left out\t1\n" in done.stdout
    assert np.load(tmp_path / "o.npy").tolist() == expected(["a"], [])[0]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zst"])
@pytest.mark.parametrize("kind", [".txt", ".jsonl"])
def test_what_unpacks_beyond_all_measure(kind, suffix, tmp_path, monkeypatch) -> None:
    """One text or many: it ends with the first piece too many, whatever is left."""
    most, size = 1 << 18, 1 << 20
    monkeypatch.setattr(documents, "_ALWAYS_BYTES", most)
    monkeypatch.setattr(documents, "_PIECE_BYTES", 1 << 16)
    bomb = {".txt": b"a" * size, ".jsonl": b'{"text": "%s"}\n' % (b"a" * 1000) * (size >> 10)}[kind]
    path = tmp_path / f"a{kind}{suffix}"
    path.write_bytes(PACK[suffix](bomb))
    monkeypatch.setattr(documents, "_MOST_TIMES", len(bomb) // path.stat().st_size // 4)
    (unit,), _ = units_of([str(path)], Reading())
    blocks = read_documents(unit, Reading())
    with pytest.raises(ResourceError, match=r"unpacks to more than \d+ times its size"):
        list(blocks)
    monkeypatch.setattr(documents, "_ALWAYS_BYTES", len(bomb))
    blocks = read_documents(unit, Reading())
    assert sum(len(block.texts) for block in blocks) == (1 if kind == ".txt" else size >> 10)


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zst"])
def test_damaged_compression(suffix, mtkit, tmp_path) -> None:
    packed = PACK[suffix](json_lines([str(i) for i in range(1000)]))
    for name, content in ("cut", packed[:-20]), ("other", b"not compressed at all"):
        (tmp_path / f"{name}.jsonl{suffix}").write_bytes(content)
        done = mtkit(
            "corpus", "encode", f"{name}.jsonl{suffix}", "-t", TOKENIZER, "-o", f"{name}.npy"
        )
        assert done.returncode == 3, done.stderr
        assert f"{name}.jsonl{suffix}".encode() in done.stderr
        assert b"Traceback" not in done.stderr
        assert not (tmp_path / f"{name}.npy").exists()


def test_usage(mtkit, tmp_path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(TEXTS))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.log").write_text("no")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    table(tmp_path / "other.parquet", TEXTS, "body")
    for args, code, said in [
        (("nothing.jsonl", "-o", "o.npy"), 2, b"nothing.jsonl"),
        (("folder", "-o", "o.npy"), 2, b"no documents among 1 files"),
        (("a.jsonl", "-o", "o.txt"), 2, b".txt is not an output format; one of .bin"),
        (("a.jsonl", "-o", "no/o.npy"), 2, b"no such folder"),
        (("a.jsonl", "-o", "o.npy", "--engine", "x"), 2, b"there is no engine 'x'"),
        (("a.jsonl", "-o", "o.npy", "--ray-address", "x"), 2, b"--engine ray"),
        (("bad.parquet", "-o", "o.npy"), 3, b"bad.parquet: is damaged"),
        (("other.parquet", "-o", "o.npy"), 3, b"--field names one of: body"),
        (("nosuch://a", "-o", "o.npy"), 2, b"nosuch://a: Protocol not known"),
    ]:
        done = mtkit("corpus", "encode", *args, "-t", TOKENIZER)
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
        assert b"Traceback" not in done.stderr


def test_parts_of_another_job(mtkit, tmp_path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(TEXTS))
    (tmp_path / "b.jsonl").write_bytes(json_lines(TEXTS) + b"{")
    base = ("corpus", "encode", "a.jsonl", "b.jsonl", "-t", TOKENIZER, "-o", "o.npy", "--jobs", 1)
    assert mtkit(*base).returncode == 3
    assert (tmp_path / "o.npy.parts" / "000000.json").is_file()
    (tmp_path / "b.jsonl").write_bytes(json_lines(TEXTS))
    done = mtkit(*base)
    assert done.returncode == 2
    assert b"--restart starts over" in done.stderr
    assert mtkit(*base, "--restart").returncode == 0
    done = mtkit(*base)
    assert done.returncode == 2
    assert b"already exists" in done.stderr
    assert mtkit(*base, "--force").returncode == 0


def test_where_nothing_is_done_another_job_may_begin(mtkit, tmp_path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(TEXTS))
    base = ("corpus", "encode", "a.jsonl", "-t", TOKENIZER, "-o", "o.npy")
    assert mtkit(*base, "--field", "txt").returncode == 3
    assert (tmp_path / "o.npy.parts").is_dir()
    assert mtkit(*base).returncode == 0


def test_a_file_that_is_named_twice_is_read_twice(mtkit, tmp_path) -> None:
    (tmp_path / "a.txt").write_text("Hello, world!")
    done = mtkit("corpus", "count", "a.txt", ".", "a.txt", "-t", TOKENIZER, "-o", "o.json")
    assert b"documents\t3\n" in done.stdout


@pytest.mark.parametrize(
    ("name", "said"), [("-", "cannot come from a pipe"), ("empty.jsonl", "is empty")]
)
def test_what_is_no_corpus(name, said, mtkit, tmp_path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"")
    done = mtkit("corpus", "count", name, "-t", TOKENIZER, "-o", "o.json")
    assert said in one_line(done, 2)


def test_a_folder_that_is_not_ours_stays(mtkit, tmp_path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "o.npy.parts").mkdir()
    (tmp_path / "o.npy.parts" / "mine").write_text("precious")
    done = mtkit("corpus", "encode", "a.txt", "-t", TOKENIZER, "-o", "o.npy", "--restart")
    assert done.returncode == 2
    assert (tmp_path / "o.npy.parts" / "mine").read_text() == "precious"


def test_one_value_of_a_dictionary_again_and_again(tmp_path: Path, mtkit: Run) -> None:
    """A file of 600 bytes stood for 12 GB."""
    texts = pyarrow.table({"text": ["a" * 1_000_000] * 80})
    parquet.write_table(texts, tmp_path / "a.parquet", compression="gzip")
    line = one_line(mtkit("corpus", "count", "a.parquet", "-o", "o.json"), 5)
    assert "a.parquet: unpacks to more than 256 times its size" in line


@pytest.mark.parametrize("name", ["a.parquet", "link.parquet"])
def test_inputs_are_not_replaced(name, mtkit, tmp_path) -> None:
    table(tmp_path / "a.parquet", TEXTS)
    (tmp_path / "link.parquet").symlink_to("a.parquet")
    before = (tmp_path / "a.parquet").read_bytes()
    done = mtkit("corpus", "encode", "a.parquet", "-t", TOKENIZER, "-o", name, "--force")
    assert done.returncode == 2
    assert b"would be overwritten" in done.stderr
    copy = tmp_path / "tokenizer.json"
    copy.write_bytes((TOKENIZER / "tokenizer.json").read_bytes())
    done = mtkit("corpus", "count", "a.parquet", "-t", copy.name, "-o", copy.name, "--force")
    assert done.returncode == 2
    assert copy.read_bytes() == (TOKENIZER / "tokenizer.json").read_bytes()
    assert (tmp_path / "a.parquet").read_bytes() == before


def test_an_empty_folder_of_parts_is_a_beginning(mtkit, tmp_path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "o.npy.parts").mkdir()
    done = mtkit("corpus", "encode", "a.txt", "-t", TOKENIZER, "-o", "o.npy")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "o.npy.parts").exists()


def test_only_bad_documents_may_come_to_be_skipped(mtkit, tmp_path) -> None:
    """Parts made with --skip-bad are not those of a job that ends at a bad document."""
    (tmp_path / "a.jsonl").write_bytes(b"{")
    base = ("corpus", "encode", "a.jsonl", "b.txt.gz", "-t", TOKENIZER, "-o", "o.npy")
    (tmp_path / "b.txt.gz").write_bytes(b"not compressed")
    assert mtkit(*base, "--skip-bad", "--jobs", "1").returncode == 3
    done = mtkit(*base, "--jobs", "1")
    assert done.returncode == 2
    assert b"--restart starts over" in done.stderr


def test_errors_of_a_place_are_told(monkeypatch) -> None:
    class Place:
        def size(self, name: str) -> int:
            raise RuntimeError("no answer")

    import fsspec

    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda path: (Place(), path))
    with pytest.raises(mtkit.MtkitError, match=r"a\.txt: cannot be read: no answer"):
        units_of(["http://x/a.txt"], Reading())

    def failing(*_: object) -> None:
        raise RuntimeError("connection lost")

    monkeypatch.setattr(fsspec, "open", failing)
    with (
        pytest.raises(mtkit.MtkitError, match=r"a\.txt: cannot be read: connection lost"),
        documents.open_source("http://x/a.txt"),
    ):
        pass

    def lacking(_: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", lacking)
    with pytest.raises(mtkit.MtkitError, match=r"a\.txt: Install s3fs"):
        units_of(["s3://x/a.txt"], Reading())


def test_without_pyarrow_nothing_is_begun(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.txt").write_text("a")
    reading = Reading()
    units, _ = units_of([str(tmp_path / "a.txt")], reading)
    target = str(tmp_path / "o.parquet")
    with pytest.raises(mtkit.MtkitError, match="needs the package pyarrow"):
        encode(Job(str(TOKENIZER), width=2), units, target, JobSettings(), lambda *_: None)
    assert not os.path.exists(f"{target}.parts")


def test_two_runs_on_one_output(tmp_path: Path) -> None:
    """The second is refused; once the first has ended, the same command goes on."""
    (tmp_path / "a.txt").write_text("text")
    units, _ = units_of([str(tmp_path / "a.txt")], Reading())
    folder, job = str(tmp_path / "o.npy.parts"), Job(str(TOKENIZER), width=2)
    with Parts(folder) as first:
        first.begin(job, units, restart=False)
        with Parts(folder) as second, pytest.raises(UsageError, match="by another process"):
            second.begin(job, units, restart=False)
    with Parts(folder) as third:
        third.begin(job, units, restart=False)


def test_a_folder_as_transformers_reads_it(mtkit, tmp_path) -> None:
    """Its class splits line breaks otherwise than the file does."""
    folder = tmp_path / "folder"
    shutil.copytree(TOKENIZER, folder)
    settings = json.loads((folder / "tokenizer_config.json").read_bytes())
    named = json.dumps({**settings, "tokenizer_class": "GPT2Tokenizer"})
    (folder / "tokenizer_config.json").write_text(named)
    text = "the end.\n\nThe beginning"
    (tmp_path / "a.txt").write_text(text)
    tokens = {}
    for options in ((), ("--as", "transformers")):
        done = mtkit("corpus", "count", "a.txt", "-t", folder, "-o", "f.json", "--force", *options)
        assert done.returncode == 0, done.stderr
        tokens[options] = json.loads((tmp_path / "f.json").read_bytes())["tokens"]
        same = mtkit_load(folder, reader=options[-1] if options else None)
        assert tokens[options] == len(same.encode_ids(text, add_special_tokens=False))
    assert len(set(tokens.values())) == len(tokens)
