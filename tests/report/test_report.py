"""``mtkit report``: one page that holds what it shows, can be reached by no text, and is whole."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import shutil
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import hf_models
import pytest
from small_files import sources
from support import FIXTURES, Run, one_line

import mtkit as package
from mtkit.base.binary import Source
from mtkit.base.escape import printable
from mtkit.gguf import open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes
from mtkit.inspection.gguf import inspect_gguf
from mtkit.report import page as assemble
from mtkit.report import report
from mtkit.report.content import describe_tokenizer, script_of
from mtkit.report.page import Columns
from mtkit.tokenizer.load import load

MODEL = os.path.join(os.path.dirname(package.__file__), "data", "default-model.gguf")
PARTS = os.path.join(os.path.dirname(assemble.__file__), "page")
BY_NAME = {one.name: one for one in TENSOR_TYPES.values()}
HOSTILE = "</script><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """Tags of a page, and the texts of its scripts."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inner: dict[str, str] = {}
        self.open = ""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.tags.append((tag, own))
        self.open = own.get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        self.inner[self.open] = self.inner.get(self.open, "") + data

    @property
    def data(self) -> Any:
        return json.loads(self.inner["data"])

    def column(self, about: dict[str, Any]) -> bytes:
        return zlib.decompress(base64.b64decode(self.inner[f"column-{about['column']}"]))


def test_its_policy_lets_its_own_script_and_style_run_and_nothing_else() -> None:
    page = Page(report([Source.open(MODEL)]))
    metas = [own for tag, own in page.tags if tag == "meta" and "http-equiv" in own]
    (policy,) = (own["content"] or "" for own in metas)
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    for tag in ("script", "style"):
        digest = hashlib.sha256(page.inner[tag].encode()).digest()
        assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    runs = [own for tag, own in page.tags if tag == "script" and "type" not in own]
    assert runs == [{}]


def test_it_asks_for_nothing_elsewhere_and_makes_no_html_of_texts() -> None:
    page = Page(report([Source.open(MODEL)]))
    links = {own.get(name) for _, own in page.tags for name in ("src", "href", "action", "style")}
    assert links - {None} == {"data:,", "#main"}
    own = "".join(page.inner[tag] for tag in ("script", "style"))
    addresses = set(re.findall(r"\w+://[\w./]*", own))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert not re.search(r"@import|url\(|fetch\(|XMLHttp|WebSocket|sendBeacon|import\(", own)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function", own)
    assert not [name for _, own in page.tags for name in own if name.startswith("on")]


def test_every_part_of_the_page_is_in_it() -> None:
    there = {f"{name}.js" for name in assemble.PAGE_SCRIPTS} | {"page.html", "page.css"}
    assert set(os.listdir(PARTS)) == there


def hostile_tokenizer(folder: Path) -> Path:
    """Return a tokenizer whose tokens, names and template try to be more than text."""
    document = json.loads((FIXTURES / "bbpe-8k" / "tokenizer.json").read_bytes())
    first = 1 + max(token["id"] for token in document["added_tokens"])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    for at, content in enumerate((HOSTILE, "\u202egnp.exe", "a\x00\x1b[31mb\nc", "<!--<script>")):
        document["added_tokens"].append(
            {"id": first + at, "content": content, **flags, "special": at == 0}
        )
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    template = HOSTILE + "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    config = {"chat_template": template, "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


def test_no_text_of_a_file_ends_what_holds_it(tmp_path: Path) -> None:
    path = hostile_tokenizer(tmp_path)
    strange = tmp_path / "<img src=x onerror=alert(1)>.json"
    strange.write_bytes(path.read_bytes())
    page = report([Source.open(str(strange))])
    found = Page(page)
    assert not [own for tag, own in found.tags if tag == "img"]
    assert b"\x1b" not in page
    assert "\u202e" not in page.decode()
    assert found.data["files"][0]["templates"][0]["text"].startswith(HOSTILE)
    texts = found.column(found.data["files"][0]["tokens"]["text"]).decode().split("\n")
    assert {HOSTILE.replace(" ", "·"), "\\u202egnp.exe", "a\\x00\\x1b[31mb⏎c"} <= set(texts)


@pytest.mark.parametrize("name", sources())
def test_a_tokenizer_of_every_format(name: str) -> None:
    from mtkit.tokenizer.load import load_source

    source = sources()[name]
    found = Page(report([source]))
    (file,) = found.data["files"]
    tokenizer = load_source(source)
    told = file["tokens"]
    assert told["count"] == tokenizer.vocab_size
    assert told["format"] == tokenizer.format_name
    lines = found.column(told["text"]).decode().split("\n")
    assert len(lines) == tokenizer.vocab_size
    sizes = found.column(told["bytes"])
    lengths = [len(tokenizer.token_bytes(i)) for i in range(tokenizer.vocab_size)]
    assert list(sizes) == lengths
    assert sum(count for _, count in told["scripts"]) == told["count"]


def test_a_model_is_what_inspect_says_it_is() -> None:
    page = Page(report([Source.open(MODEL)]))
    (file,) = page.data["files"]
    found = inspect_gguf(MODEL)
    tensors = open_gguf(Source.open(MODEL)).tensors
    told = file["model"]
    assert told["layers"] == [group.name for group in found.layers]
    assert sum(row[4] for row in told["sizes"]) == found.weights
    assert sum(row[2] for row in told["sizes"]) == len(tensors)
    names = page.column(told["tensors"]["name"]).decode().split("\n")
    assert names == [tensor.name for tensor in tensors]
    of_layer = page.column(told["tensors"]["layer"])
    for group_number, group in enumerate(found.layers):
        inside = {name for name, at in zip(names, of_layer, strict=True) if at == group_number}
        assert inside == {tensor.name for tensor in group.tensors}
    assert told["values"] is None
    assert [row[0] for row in told["metadata"]] == list(found.file.metadata)


def test_who_gets_the_page_does_not_learn_where_the_file_is(tmp_path: Path) -> None:
    folder = tmp_path / "a folder of mine"
    folder.mkdir()
    with open(MODEL, "rb") as file:
        (folder / "a.gguf").write_bytes(file.read())
    page = report([Source.open(str(folder / "a.gguf"))])
    assert b"a.gguf" in page
    assert b"of mine" not in page
    assert os.fsencode(tmp_path) not in page
    assert tmp_path.name.encode() not in page


def test_histograms_are_those_of_inspect() -> None:
    from mtkit.inspection.statistics import tensor_statistics

    values = struct.pack("<64f", *(0.5 * at - 3 for at in range(63)), float("nan"))
    made = gguf_bytes(
        [Key("general.architecture", "string", "llama")],
        [
            NewTensor("blk.0.a.weight", (8, 8), BY_NAME["F32"], values),
            NewTensor("blk.0.b.weight", (2,), BY_NAME["F32"], struct.pack("<2f", 1, float("inf"))),
        ],
    )
    heard: list[float] = []
    page = Page(report([Source("a.gguf", made)], histograms=True, progress=heard.append))
    told = page.data["files"][0]["model"]["values"]
    file = open_gguf(Source("a.gguf", made))
    assert heard == sorted(heard)
    assert heard[-1] == 1
    for shown, tensor in zip(told, file.tensors, strict=True):
        known = tensor_statistics(file, tensor)
        assert shown["mean"] == known.mean
        assert shown["nan"] + shown["infinite"] == 1
        assert shown["bins"] == [list(row) for row in known.histogram]


def test_two_files_have_what_diff_and_compare_say(mtkit: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    assert mtkit("edit", MODEL, "--set", "general.name=renamed", "-o", other).returncode == 0
    made = mtkit("report", MODEL, other, "-o", tmp_path / "both.html", "--json")
    assert made.returncode == 0, made.stderr
    page = Page((tmp_path / "both.html").read_bytes())
    diff = json.loads(mtkit("diff", MODEL, other, "--json").stdout)
    compare = json.loads(mtkit("compare", MODEL, other, "--json").stdout)
    found = page.data["difference"]
    assert found["diff"].pop("verdict") == "only the metadata differs; all tensors are the same"
    assert found == {"diff": diff, "compare": compare}
    assert [file["name"] for file in page.data["files"]] == ["default-model.gguf", "other.gguf"]
    said = json.loads(made.stdout)
    assert said["schema"] == "mtkit.report/1"
    assert said["bytes"] == (tmp_path / "both.html").stat().st_size


def test_what_a_token_is_written_in() -> None:
    known = {
        " the": "Latin", "é1": "Latin", "т": "Cyrillic", "中": "Han", "中の": "Japanese",
        "aт": "several scripts", "12": "digits", " ": "white space", "!)": "signs", "": "nothing",
    }  # fmt: skip
    assert {text: script_of(text.encode()) for text in known} == known
    assert script_of(b"\xe4\xb8") == "bytes"


def test_numbers_are_kept_in_as_few_bytes_as_they_need() -> None:
    columns = Columns()
    for most, kind in ((255, "u8"), (256, "u16"), (1 << 16, "u32"), (1 << 32, "f64")):
        about = columns.counts([0, most])
        assert about["kind"] == kind
        assert about["count"] == 2
    assert columns.counts([])["count"] == 0


def test_where_no_merges_make_a_token() -> None:
    known = {
        "bbpe-8k/tokenizer.json": "pairs",
        "spm-bpe/tokenizer.model": "scores",
        "spm-unigram/tokenizer.model": None,
        "wordpiece/tokenizer.json": None,
    }
    for name, kind in known.items():
        merges = describe_tokenizer(load(FIXTURES / name), Columns())["merges"]
        assert (merges and merges["kind"]) == kind


def test_where_the_page_is_written(mtkit: Run, tmp_path: Path) -> None:
    done = mtkit("report", FIXTURES / "spm-bpe" / "tokenizer.model")
    assert done.returncode == 0, done.stderr
    path, size = done.stdout.decode().split()
    assert path == "tokenizer.report.html"
    assert (tmp_path / path).stat().st_size == int(size)
    again = mtkit("report", FIXTURES / "spm-bpe" / "tokenizer.model")
    assert "already exists; choose another name" in one_line(again, 2)
    named = mtkit("report", FIXTURES / "wordpiece")
    assert named.stdout.startswith(b"wordpiece.report.html\t")
    piped = (FIXTURES / "spm-bpe" / "tokenizer.model").read_bytes()
    assert mtkit("report", "-", stdin=piped).stdout.startswith(b"stdin.report.html\t")


def test_a_file_may_have_any_name(mtkit: Run, tmp_path: Path) -> None:
    for name in (b"\xff\xfe.gguf", b"a<b>&.gguf", "ä \u202e\n.gguf".encode()):
        copy = os.path.join(os.fsencode(tmp_path), name)
        shutil.copyfile(MODEL, copy)
        done = mtkit("report", os.fsdecode(copy), "-o", "r.html", "--force")
        assert done.returncode == 0, done.stderr
        title = re.search("<title>(.*)</title>", (tmp_path / "r.html").read_text("utf-8"))
        assert title is not None
        assert html.unescape(title[1]) == printable(name)


def test_what_no_page_is_made_of(mtkit: Run, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    with open(MODEL, "rb") as file:
        broken.write_bytes(file.read(3000))
    assert "broken.gguf" in one_line(mtkit("report", broken), 3)
    assert "not 3" in one_line(mtkit("report", MODEL, MODEL, MODEL), 2)
    assert "-o report.html" in one_line(mtkit("report", MODEL, "-o", "-"), 2)
    copy = tmp_path / "model.gguf"
    copy.write_bytes(b"GGUF")
    assert "already exists" in one_line(mtkit("report", copy, "-o", copy), 2)
    assert "is the input file" in one_line(mtkit("report", copy, "-o", copy, "--force"), 2)
    assert not list(tmp_path.glob("*.html"))


def test_a_folder_is_shown_as_the_model_that_it_becomes(tmp_path: Path, mtkit: Run) -> None:
    folder = hf_models.folder("qwen3")
    (file,) = Page(report([str(folder)])).data["files"]
    assert file["name"] == folder.name
    assert "Qwen3ForCausalLM" in file["about"]
    assert file["model"]["inspect"]["architecture"] == "qwen3"
    assert file["model"]["tensors"]["count"] > 20
    assert file["tokens"]["count"] > 0
    assert file["check"]["checked"] == [
        "config.json", "names and shapes of the weights", "tokenizer", "conversion",
    ]  # fmt: skip
    assert "tensor data" in [row["part"] for row in file["check"]["skipped"]]
    done = mtkit("report", str(folder), "--histograms", "-o", str(tmp_path / "a.html"))
    assert done.returncode == 2
    assert b"--histograms reads a GGUF" in done.stderr
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    config = json.loads((other / "config.json").read_text("utf-8"))
    (other / "config.json").write_text(json.dumps({**config, "architectures": ["NewForCausalLM"]}))
    (file,) = Page(report([str(other)])).data["files"]
    assert "NewForCausalLM" in file["about"]
    assert "mtkit does not convert it" in file["about"]
    assert str(tmp_path) not in file["about"]
    assert file["tokens"]["count"] > 0


def test_what_was_checked_is_said() -> None:
    (file,) = Page(report([Source.open(MODEL)])).data["files"]
    assert file["check"]["checked"] == ["header", "metadata", "tensor table", "tokens"]
    (file,) = Page(report([Source.open(MODEL)], deep=True)).data["files"]
    checked = {*file["check"]["checked"]}
    assert {"tensor data", "merges"} <= checked
    skipped = [name for row in file["check"]["skipped"] for name in row["part"].split(", ")]
    assert not checked & {*skipped}
