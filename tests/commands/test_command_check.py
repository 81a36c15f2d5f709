"""``mtkit check``: rows, documents, screens and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from screens import check_screens, screen
from small_gguf import small_gguf
from support import FIXTURES, Run, one_line

SOUND = FIXTURES / "bbpe-8k" / "tokenizer.json"


def damaged(folder: Path) -> Path:
    """A GGUF that ends inside its last key."""
    path = folder / "cut.gguf"
    path.write_bytes(small_gguf("gpt2", pre="gpt-2")[:-3])
    return path


def odd(folder: Path) -> Path:
    """A GGUF whose BOS is not a token."""
    path = folder / "odd.gguf"
    path.write_bytes(small_gguf("gpt2", {"bos_token_id": 9999}, pre="gpt-2"))
    return path


def test_exit_codes_and_rows(mtkit: Run, tmp_path: Path) -> None:
    clean = mtkit("check", SOUND)
    row = f"{SOUND}\tok\t\t\t\tnothing found\n".encode()
    assert (clean.returncode, clean.stdout, clean.stderr) == (0, row, b"")
    done = mtkit("check", odd(tmp_path))
    assert done.returncode == 1
    row, *others = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert row[1:4] == ["warning", "gguf-id-range", "tokenizer.ggml.bos_token_id"]
    assert row[4].isdigit()
    assert row[5].startswith("is 9999, but there are ")
    assert [other[1] for other in others] == ["skipped"]
    done = mtkit("check", damaged(tmp_path))
    assert done.returncode == 3
    assert done.stdout.decode().splitlines()[0].split("\t")[1:3] == ["error", "truncated"]


def test_the_worst_of_several_counts(mtkit: Run, tmp_path: Path) -> None:
    done = mtkit("check", SOUND, odd(tmp_path), damaged(tmp_path), "--json")
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert document["schema"] == "mtkit.check/1"
    assert [file["exit_code"] for file in document["files"]] == [0, 1, 3]
    finding = document["files"][1]["findings"][0]
    assert finding["code"] == "gguf-id-range"
    assert finding["severity"] == "warning"
    assert document["files"][2]["skipped"] == [
        {"part": "everything after the damage", "why": "reading stopped there"}
    ]


def test_every_model_of_a_folder_is_checked(mtkit: Run, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    odd(folder)
    damaged(folder)
    (folder / "part-00002-of-00003.gguf").write_bytes(b"GGUF")
    done = mtkit("check", folder)
    assert done.returncode == 3
    found = {line.split("\t")[0] for line in done.stdout.decode().splitlines()}
    assert found == {str(path) for path in folder.iterdir()}
    assert mtkit("inspect", folder).returncode == 3
    assert "no such file" in one_line(mtkit("check", SOUND, "--against", "missing.json"), 2)


def test_sarif(mtkit: Run, tmp_path: Path) -> None:
    done = mtkit("check", "--sarif", odd(tmp_path), damaged(tmp_path))
    document = json.loads(done.stdout)
    (run,) = document["runs"]
    assert document["version"] == "2.1.0"
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert ids == sorted({result["ruleId"] for result in run["results"]})
    for result in run["results"]:
        assert result["level"] in ("error", "warning", "note")
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["artifactLocation"]["uri"].endswith(".gguf")
        assert place["region"]["byteOffset"] >= 0
    assert "run" not in document


def test_screens(tmp_path: Path) -> None:
    good = screen("check", SOUND)
    assert good.code == 0
    assert good.words.startswith("✓ ")
    assert "nothing found" in good.words
    for columns in (60, 80, 120):
        bad = screen("check", odd(tmp_path), columns=columns)
        assert bad.code == 1
        assert bad.words.startswith("✗ ")
        assert "1 warning" in bad.words
        assert "is 9999, but there are" in bad.words
        assert "mtkit check --explain gguf-id-range" in bad.words
    check_screens("check", damaged(tmp_path), code=3)
