"""Malformed and odd files get the verdict that the shared expectations give them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from support import SHARED, absent, measured, shared

from mtkit.commands.inspect import gguf as inspect_gguf
from mtkit.errors import FormatError
from mtkit.inspection.document import gguf_document
from mtkit.inspection.gguf import inspect_gguf as inspect

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


# Kinds of file whose oddity is in the container, not in the tokenizer.
CONTAINER = {"header", "count", "string length", "key", "string", "value type", "array", "bool",
             "float", "integer", "truncation", "alignment", "tensor name", "tensor shape",
             "tensor type", "tensor offset", "padding", "shards", "valid"}  # fmt: skip
MADE_FILES = 207
SECTIONS = ("summary", "metadata", "tensors", "layers", "places")


def cases() -> list[dict[str, Any]]:
    path = SHARED / "gguf-vocab" / "bad_expectations.json"
    if not path.exists():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = shared("gguf-vocab/make_bad_gguf.py")
    out = tmp_path_factory.mktemp("bad")
    subprocess.run([sys.executable, script, out], check=True, capture_output=True)
    return out


def test_all_files_are_made(folder: Path) -> None:
    assert len(list(folder.glob("*.gguf"))) == len(cases()) == MADE_FILES


def test_expectations_are_here() -> None:
    if not cases():
        absent("bad_expectations.json is not here", "MTKIT_REQUIRE_SHARED")


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_verdict(folder: Path, case: dict[str, Any]) -> None:
    path = folder / f"{case['name']}.gguf"
    begin = time.process_time()
    if case["want"] == "reject":
        with pytest.raises(FormatError) as caught:
            inspect(str(path))
        message = str(caught.value)
        assert message.startswith(str(folder))
        assert message.isprintable()
        assert len(message) < len(str(path)) + 250
    else:
        report = inspect(str(path))
        json.dumps(gguf_document(report), allow_nan=False)
        view = inspect_gguf.GgufView(report, None, None)
        assert list(inspect_gguf._pipe_rows(view, SECTIONS))
        if case["class"] in CONTAINER:
            assert bool(report.findings) == (case["want"] == "lenient" or is_later_shard(case))
    assert time.process_time() - begin < 1


def is_later_shard(case: dict[str, Any]) -> bool:
    """Seen from a later file, a wrong set is a warning, whatever the expectation calls it."""
    return case["name"] in {
        "s_no_1_first", "s_tensors_wrong-00002-of-00002", "s_dup-00002-of-00002",
    }  # fmt: skip


SAMPLE = (
    "h_empty", "h_magic_html", "h_n_kv_2e40", "k_bad_utf8", "k_nul_shadow", "v_str_controls",
    "v_str_1mib", "v_float_special", "a_nested_64", "a_nested_100000", "a_len_wrap",
    "a_empty_strings", "d_bytes_wrap", "o_wrap", "x_trunc_data", "m_name_type", "k_token_bad_utf8",
    "s_dup-00001-of-00002", "s_count2_alone-00001-of-00002", "z_base",
)  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_command(folder: Path, name: str) -> None:
    want = {case["name"]: case["want"] for case in cases()}[name]
    command = (sys.executable, "-m", "mtkit", "inspect", folder / f"{name}.gguf")
    code, seconds, peak, stdout, stderr = measured(*command)
    assert code == (3 if want == "reject" else 0)
    errors = stderr.decode()
    if want == "reject":
        assert not stdout
        assert errors.startswith("mtkit: ")
        assert errors.count("\n") == 1
    assert "Traceback" not in errors
    assert all(char.isprintable() or char in "\n\t" for char in errors + stdout.decode())
    assert seconds < 1
    assert peak < 100e6
