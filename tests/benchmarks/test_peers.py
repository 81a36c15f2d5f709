"""`python -m benchmarks.peers`: ids first, then figures of one interleaved run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import FIXTURES, TESTS, reference

ROOT = str(TESTS.parent)
sys.path.append(ROOT)  # at its end: the mtkit that is tested may be an installed one

from benchmarks.peers.summary import rows_of  # noqa: E402  after its folder is on the path

HF = str(FIXTURES / "bbpe-8k" / "tokenizer.json")
DEFAULT = str(FIXTURES.parents[1] / "mtkit" / "data" / "default.mtok")
SPM = str(FIXTURES / "spm-bpe" / "tokenizer.model")
TEXT = "The quick brown fox, 123 times: 漢字 and café.\nA second line\twith a tab.\n" * 40
START = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module('benchmarks.peers', run_name='__main__', alter_sys=True)"
)
PEER = """
import time
import mtkit
from benchmarks.peers.libraries import Library

class Slow(Library):
    name = "slow"
    module = "mtkit"
    def load(self, path):
        return mtkit.load(path)
    def ids(self, loaded, text):
        ids = loaded.encode_ids(text, add_special_tokens=False)
        for _ in range(3):
            loaded.encode(text)
        return ids

class Wrong(Slow):
    name = "wrong"
    def ids(self, loaded, text):
        ids = loaded.encode_ids(text, add_special_tokens=False)
        return [*ids[:5], 7, *ids[6:]] if "quick brown fox, 123" in text else ids

class Broken(Slow):
    name = "broken"
    def load(self, path):
        raise RuntimeError("cannot read this")

class Gone(Slow):
    name = "gone"
    def ids(self, loaded, text):
        if len(text) > 100:
            import os
            os._exit(3)
        return super().ids(loaded, text)
"""


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "peer.py").write_text(PEER, encoding="utf-8")
    return {"text": str(tmp_path / "text.txt"), "peer": str(tmp_path / "peer.py")}


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START, ROOT, *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def document(*args: str) -> dict[str, Any]:
    done = run(*args, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_wrong_peer_is_named_and_has_no_ratio(files: dict[str, str]) -> None:
    options = ["-t", HF, files["text"], "--quick", "--rounds", "1", "--peers", files["peer"]]
    (tokenizer,) = document(*options)["tokenizers"]
    states = tokenizer["libraries"]
    assert set(states) == {"mtkit", "slow", "wrong", "broken", "gone"}
    assert states["slow"]["wrong"] == states["mtkit"]["wrong"] == []
    (wrong,) = states["wrong"]["wrong"]
    assert (wrong["text"], wrong["at"], wrong["ids"][0]) == ("text", 5, 7)
    assert wrong["right"][0] != 7
    assert states["broken"]["error"] == "RuntimeError: cannot read this"
    assert states["gone"]["error"] == "ended with status 3"

    rows = rows_of(tokenizer)
    assert {name for row in rows for name in row.ratios} == {"slow"}
    assert {name for row in rows for name in row.costs} == {"mtkit", "slow", "wrong"}

    done = run(*options)
    assert done.returncode == 0
    assert "same ids in every text" in done.stderr
    assert "no ratio where ids differ: text 'text', token 5: 7 " in done.stderr
    assert "not measured: RuntimeError: cannot read this" in done.stderr


def test_figures_move_with_what_is_measured(files: dict[str, str]) -> None:
    """A peer that does the work four times has ratios above 1, and they repeat."""
    found = document("-t", HF, files["text"], "--quick", "--rounds", "3", "--peers", files["peer"])
    rows = {(row.scenario, row.text): row for row in rows_of(found["tokenizers"][0])}
    for key in (("whole fresh", "text"), ("whole again", "text"), ("5 KB", "text"), ("short", "")):
        ratio = rows[key].ratios["slow"]
        assert ratio.middle > 2, key
        assert ratio.low <= ratio.middle <= ratio.high
        assert rows[key].costs["slow"] > rows[key].costs["mtkit"] > 0
    assert rows["load .mtok", ""].costs["mtkit"] < rows["load", ""].costs["mtkit"]


def test_the_document_says_all_that_figures_depend_on(files: dict[str, str]) -> None:
    reference("sentencepiece")
    found = document("-t", SPM, files["text"], "--rounds", "1", "--peers", "sentencepiece")
    assert set(found) == {
        "schema", "mtkit", "machine", "settings", "texts", "tokenizers"
    }  # fmt: skip
    assert found["schema"] == "benchmarks.peers/1"
    assert set(found["machine"]) == {"cpu", "cores", "system", "python", "date", "load"}
    assert found["texts"] == [{"name": "text", "bytes": len(TEXT.encode())}]
    (tokenizer,) = found["tokenizers"]
    assert tokenizer["name"] == "spm-bpe/tokenizer.model"
    assert tokenizer["reference"] == "sentencepiece"
    assert tokenizer["libraries"]["sentencepiece"]["version"]
    assert tokenizer["libraries"]["sentencepiece"]["wrong"] == []
    from benchmarks.peers.scenarios import SCENARIOS

    seen = {figure["scenario"] for figure in tokenizer["figures"]}
    assert seen == {*SCENARIOS, "load .mtok", "load memory"}
    for figure in tokenizer["figures"]:
        assert set(figure) == {"scenario", "text", "part", "unit", "costs"}
        assert set(figure["costs"]) == {"mtkit", "sentencepiece"}, figure
        for costs in figure["costs"].values():
            assert len(costs) == 1
            assert costs[0] >= 0
            assert costs[0] > 0 or figure["unit"].startswith("bytes"), figure


def test_mtkit_alone_with_the_texts_that_python_brings() -> None:
    done = run("-t", HF, "--peers", "none", "--quick", "--rounds", "1", "--size", "20k")
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert {line[3] for line in lines} == {"mtkit"}
    assert "code" in {line[2] for line in lines}
    assert all(len(line) == 6 and float(line[4]) >= 0 for line in lines)


def test_ids_that_differ_from_the_reference_are_the_answer_no(files: dict[str, str]) -> None:
    """A file can describe the reference itself: here one that gives other ids."""
    peer = Path(files["peer"])
    peer.write_text(PEER.replace('"wrong"', '"tokenizers"'), encoding="utf-8")
    options = ["-t", HF, files["text"], "--quick", "--rounds", "1", "--peers", files["peer"]]
    done = run(*options)
    assert done.returncode == 1, done.stderr
    said = done.stderr.splitlines()
    assert "text 'text', token 5: " in said[-1]
    assert any("not measured: RuntimeError" in line for line in said)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert all(len(line) == 6 for line in lines if line[2] == "text")


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--peers", "spacy"], 2, "--peers: there is no 'spacy'; there are tokenizers, "),
        (["--peers", "no-such.py"], 2, "no-such.py: --peers: "),
        (["--peers", ""], 2, "--peers: names no library"),
        (["--peers", "none,tokenizers"], 2, "--peers: none cannot be combined"),
        (["--plot", "x"], 2, "--plot draws ratios"),
        (["-t", "-"], 2, "-t -: a pipe cannot be read by every library"),
        (["--plot", "no-such-folder/x", "--quick", "--rounds", "1", "--size", "2KB", "--peers",
          "sentencepiece"], 2,
         "no-such-folder/x: --plot: No such file or directory"),
    ],
)  # fmt: skip
def test_errors_are_one_line(args: list[str], code: int, message: str) -> None:
    if "-t" not in args:
        args = [*args, "-t", HF]
    if "--peers" not in args:
        args = [*args, "--peers", "none"]
    done = run(*args)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_peers_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "peer.py").write_text("x = 1\n", encoding="utf-8")
    done = run("-t", HF, "--peers", str(tmp_path / "peer.py"))
    assert done.returncode == 2
    assert "has no subclass" in done.stderr
    for content, said in (
        ("x = (\n", "peer.py: --peers: SyntaxError: "),
        ("open('/nowhere')\n", "peer.py: --peers: FileNotFoundError: "),
        ("raise SystemExit(3)\n", "peer.py: --peers: SystemExit: 3"),
    ):
        (tmp_path / "peer.py").write_text(content, encoding="utf-8")
        done = run("-t", HF, "--peers", str(tmp_path / "peer.py"))
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_plot_shows_every_ratio(files: dict[str, str], tmp_path: Path) -> None:
    reference("matplotlib")
    name = str(tmp_path / "speed")
    options = ["-t", HF, files["text"], "--quick", "--rounds", "1", "--peers", files["peer"]]
    done = run(*options, "--plot", name)
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "speed.svg").read_text(encoding="utf-8")
    assert "whole fresh, text" in drawn
    assert "slow" in drawn
    assert ">wrong<" not in drawn
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")


def test_instructions_are_counted_or_valgrind_is_asked_for(tmp_path: Path) -> None:
    options = ["-t", HF, "--quick", "--rounds", "1", "--peers", "none", "--instructions"]
    if shutil.which("valgrind") is None:
        done = run(*options)
        assert done.returncode == 4
        assert "valgrind is not installed" in done.stderr
        return
    from benchmarks.peers.instructions import instructions

    # Words that come once: what is repeated inside a text is not new to it the second time.
    text = " ".join(f"w{number * 7919:x}" for number in range(10_000))
    (tmp_path / "text").write_text(text, encoding="utf-8")
    path = str(tmp_path / "text")
    costs = dict(instructions("mtkit", "", DEFAULT, path, len(text.encode())))
    assert set(costs) == {f"{x} {y}" for x in ("whole", "documents") for y in ("fresh", "again")}
    assert costs["whole fresh"] > costs["whole again"] > 1
    assert costs["documents fresh"] > costs["documents again"] > 1


def test_documents_are_cut_between_lines() -> None:
    from benchmarks.peers.scenarios import documents

    whole = "漢字" * 3000 + "\n" + "ab\n" * 3000
    parts = documents(whole)
    assert "".join(parts) == whole
    assert len(parts) > 2
