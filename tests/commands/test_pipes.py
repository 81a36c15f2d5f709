"""What a command reads may be a pipe: one with a writer is read once, another is refused."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from support import llama_cpp_for

from mtkit.base import binary
from mtkit.cli import main
from mtkit.sources.locate import MODEL, shipped

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX's")

TEXT = b"Once upon a time there was a little pipe.\n" * 4
MESSAGES = b'[{"role": "user", "content": "hi"}]'
READING = [
    ("count PIPE", TEXT),
    ("count -f PIPE", TEXT),
    ("encode -f PIPE", TEXT),
    ("encode --lines -f PIPE", TEXT),
    ("encode --messages PIPE", MESSAGES),
    ("decode -f PIPE", b"1 2 3\n4\n"),
    ("explain -f PIPE", TEXT),
    ("compare model.gguf model.gguf -f PIPE", TEXT),
    ("template --messages PIPE", MESSAGES),
    ("template --user hi --tools PIPE", b"[]"),
    ("template --parse PIPE", b"an answer"),
    ("edit model.gguf --set-file general.name=PIPE --dry-run", b"name"),
    ("trim model.gguf -o new.gguf --dry-run --corpus PIPE", TEXT),
    ("trim model.gguf -o new.gguf --dry-run --keep PIPE", b"1\n2\n"),
    ("sx vocab PIPE -t model.gguf -n 300 -o ids.txt --force", TEXT),
    ("perplexity PIPE --ctx 8", TEXT),
    ("logits -f PIPE", TEXT),
    ("generate -f PIPE -n 1 --temp 0", TEXT),
    ("generate hi -n 1 --temp 0 --grammar PIPE", b'root ::= "a"'),
    ("generate hi -n 1 --temp 0 --json-schema PIPE", b'{"const": 1}'),
    ("chat hi -n 1 --temp 0 --template PIPE", b"{{ messages[0].content }}"),
]


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(binary, "_WRITER_SECONDS", 0.05)
    os.symlink(shipped(MODEL), "model.gguf")
    os.mkfifo("in.fifo")
    return tmp_path / "in.fifo"


def run(line: str, name: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main([name.join(word.split("PIPE")) for word in line.split()])
    out, err = capfd.readouterr()
    return code, out.replace(name, "NAME"), err.replace(name, "NAME")


@pytest.mark.parametrize(("line", "data"), READING)
def test_what_is_read_may_be_a_pipe(
    line: str, data: bytes, pipe: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    llama_cpp_for(line)
    code, _, err = run(line, "in.fifo", capfd)
    assert (code, err.splitlines()[-1]) == (2, "mtkit: NAME: is a pipe that nobody writes to")
    (pipe.parent / "in.file").write_bytes(data)
    code, said, err = run(line, "in.file", capfd)
    assert code == 0, err
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    assert run(line, "in.fifo", capfd)[:2] == (0, said)
    writer.join()


@pytest.mark.parametrize("command", ["count", "encode"])
def test_a_corpus_is_read_from_files(
    command: str, pipe: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(f"corpus {command} PIPE -o out", "in.fifo", capfd)
    assert (code, err) == (2, "mtkit: NAME: is not a file: a corpus cannot come from a pipe\n")
