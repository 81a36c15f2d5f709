"""Every rule of a GGUF: what breaks it is found at its place, strictly and tolerantly the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import gguf_layout as lay
import pytest
from gguf_layout import Layout
from hypothesis import given
from hypothesis import strategies as st

from mtkit.base.binary import Source
from mtkit.base.rules import MOST_OF_A_RULE, BrokenRule, Findings
from mtkit.checks import check
from mtkit.errors import FormatError
from mtkit.gguf import GgufFile, open_gguf, rules, shards
from mtkit.gguf.file import Header
from mtkit.gguf.shards import shard_set

V3 = Layout(3)
KEY = partial(V3.key, b"a.b", lay.U8, 1)
FLOATS = bytes(64)


def read(data: bytes, *, strict: bool = True) -> GgufFile:
    return open_gguf(Source("test.gguf", data), strict=strict)


def head(tensors: int, keys: int) -> bytes:
    return b"GGUF" + V3.pack("IQQ", 3, tensors, keys)


def keys(*raw: bytes) -> bytes:
    return V3.file(list(raw))


def key(name: bytes, kind: int, value: object) -> bytes:
    return V3.file([V3.key(name, kind, value)])


def tensors(*rows: bytes, data: bytes = FLOATS) -> bytes:
    return V3.file([], list(rows), data)


def row(name: bytes = b"t", shape: tuple[int, ...] = (4,), kind: int = 0, offset: int = 0) -> bytes:
    return V3.tensor(name, shape, kind, offset)


def aligned(value: int) -> bytes:
    return key(b"general.alignment", lay.U32, value)


def nested(depth: int) -> bytes:
    inner = V3.pack("IQ", lay.U8, 0)
    for _ in range(depth):
        inner = V3.pack("IQ", lay.ARRAY, 1) + inner
    return keys(V3.string(b"k") + V3.pack("I", lay.ARRAY) + inner)


def many(count: int, element: int, item: bytes) -> bytes:
    body = V3.string(b"k") + V3.pack("IIQ", lay.ARRAY, element, count)
    return keys(body + item * count)


EMPTY_ARRAY = V3.pack("IQ", lay.U8, 0)
NAME_AT, ROW_AT = 24, 24
BROKEN: list[tuple[str, str, int, Callable[[], bytes]]] = [
    ("magic", "magic", 0, lambda: b"PK\x03\x04" + bytes(30)),
    ("magic", "magic", 0, lambda: b""),
    ("version", "version", 4, lambda: b"GGUF" + bytes(20)),
    ("truncated", "version", 4, lambda: b"GGUF"),
    ("truncated", "metadata_kv_count", 16, lambda: head(0, 0)[:20]),
    ("truncated", "a.b", 39, lambda: keys(KEY())[:-1]),
    ("truncated", "tensor 't'", 37, lambda: tensors(row())[:56]),
    ("count", "k (count)", 41, lambda: keys(
        V3.string(b"k") + V3.pack("IIQ", lay.ARRAY, lay.U8, 9))),
    ("key-count", "metadata_kv_count", 16, lambda: head(0, 1)),
    ("tensor-count", "tensor_count", 8, lambda: head(1, 0)),
    ("value-type", "k", 33, lambda: keys(V3.string(b"k") + V3.pack("IQ", 13, 0))),
    ("element-type", "k", 37, lambda: keys(V3.string(b"k") + V3.pack("IIQ", lay.ARRAY, 13, 0))),
    ("array-strings", "k", 49, lambda: many(rules.MAX_STRINGS + 1, lay.STRING, V3.string(b""))),
    ("array-depth", "k", 1249, lambda: nested(rules.MAX_DEPTH + 1)),
    ("array-nested", "k", 49 + 12 * rules.MAX_NESTED,
     lambda: many(rules.MAX_NESTED + 1, lay.ARRAY, EMPTY_ARRAY)),
    ("tensor-axes", "tensor 't'", 33, lambda: tensors(row(shape=(1, 1, 1, 1, 1)))),
    ("key-empty", "key", NAME_AT, lambda: key(b"", lay.U32, 1)),
    ("key-twice", "a.b", 40, lambda: keys(KEY(), KEY())),
    ("key-nul", "a\\x00", NAME_AT, lambda: key(b"a\0", lay.U8, 1)),
    ("key-text", "\\xff", NAME_AT, lambda: key(b"\xff", lay.U8, 1)),
    ("key-letters", "A", NAME_AT, lambda: key(b"A", lay.U8, 1)),
    ("key-length", "a" * 80 + "…", NAME_AT, lambda: key(b"a" * 65536, lay.U8, 1)),
    ("string-text", "k", 37, lambda: key(b"k", lay.STRING, b"\xff")),
    ("bool", "k", 37, lambda: key(b"k", lay.BOOL, 2)),
    ("bool-array", "k", 37, lambda: key(b"k", lay.ARRAY, (lay.BOOL, [0, 1, 3]))),
    ("alignment-type", "general.alignment", 49,
     lambda: key(b"general.alignment", lay.STRING, b"32")),
    ("alignment", "general.alignment", 53, lambda: aligned(0)),
    ("alignment", "general.alignment", 53, lambda: aligned(12)),
    ("alignment-width", "general.alignment", 49, lambda: key(b"general.alignment", lay.U64, 32)),
    ("alignment-power", "general.alignment", 53, lambda: aligned(24)),
    ("alignment-multiple", "general.alignment", 53, lambda: aligned(4)),
    ("split-type", "split.count", 43, lambda: key(b"split.count", lay.U32, 0)),
    ("split-type", "split.no", 40, lambda: key(b"split.no", lay.I32, 0)),
    ("split-type", "split.tensors.count", 51, lambda: key(b"split.tensors.count", lay.U16, 0)),
    ("tensor-twice", "tensor 't'", ROW_AT + 33, lambda: tensors(row(), row(offset=32))),
    ("tensor-name-empty", "tensor ''", ROW_AT, lambda: tensors(row(b""), data=bytes(16))),
    ("tensor-name-text", "tensor '\\xff'", ROW_AT, lambda: tensors(row(b"\xff"))),
    ("tensor-name-nul", "tensor '\\x00'", ROW_AT, lambda: tensors(row(b"\0"))),
    ("tensor-name-length", f"tensor '{'n' * 65}'", ROW_AT, lambda: tensors(row(b"n" * 65))),
    ("tensor-elements", "tensor 't'", 37, lambda: tensors(row(shape=(1 << 32, 1 << 31)))),
    ("tensor-elements", "tensor 't'", 37, lambda: tensors(row(shape=(1 << 63, 0)))),
    ("tensor-no-elements", "tensor 't'", 37, lambda: tensors(row(shape=(0, 3)), data=b"")),
    ("tensor-no-elements", "tensor 't'", 37, lambda: tensors(row(shape=()), data=bytes(4))),
    ("tensor-type-removed", "tensor 't'", 45, lambda: tensors(row(kind=4))),
    ("tensor-type", "tensor 't'", 45, lambda: tensors(row(kind=99))),
    ("tensor-type-fork", "tensor 't'", 45, lambda: tensors(row(kind=139), data=bytes(16))),
    ("tensor-blocks", "tensor 't'", 45, lambda: tensors(row(shape=(33,), kind=8))),
    ("tensor-alignment", "tensor 't'", ROW_AT, lambda: tensors(row(offset=8), data=bytes(24))),
    ("tensor-data", "tensor 't'", ROW_AT, lambda: tensors(row(), data=bytes(15))),
    ("tensor-shared", "tensor 'u'", ROW_AT + 33,
     lambda: tensors(row(shape=(16,)), row(b"u", (8,), offset=32))),
    ("padding", "padding", 57,
     lambda: head(1, 0) + row() + b"\1" * 7 + bytes(16)),
    ("trailing-bytes", "trailing bytes", 96, lambda: tensors(row(), data=bytes(33))),
]  # fmt: skip
SEVERITY = {rule.code: rule.severity for rule in (*rules.RULES, *shards.SHARD_RULES)}
CONSEQUENT = {"key-count": "truncated", "tensor-count": "truncated",
              "tensor-elements": "tensor-no-elements"}  # fmt: skip
"""What a tolerant reading meets next."""


@pytest.mark.parametrize(("code", "field", "offset", "made"), BROKEN)
def test_a_broken_rule_is_found_at_its_place(
    code: str, field: str, offset: int, made: Callable[[], bytes]
) -> None:
    data = made()
    file = read(data, strict=False)
    first, *others = file.findings
    assert (first.rule.code, first.field, first.offset) == (code, field, offset)
    assert {finding.rule.code for finding in others} <= {CONSEQUENT.get(code), "trailing-bytes"}
    if SEVERITY[code] != "error":
        assert file.is_whole
        assert read(data).findings == file.findings
        return
    with pytest.raises(BrokenRule) as caught:
        read(data)
    assert caught.value.finding == first
    assert str(caught.value) == f"test.gguf: {first}"


@pytest.mark.parametrize(
    ("code", "made"), [(code, made) for code, _, _, made in BROKEN if code != "magic"]
)
def test_no_other_rule_of_check_finds_it(
    tmp_path: Path, code: str, made: Callable[[], bytes]
) -> None:
    """But that these files are no models, and what follows from the damage."""
    path = tmp_path / "a.gguf"
    path.write_bytes(made())
    found = {finding.rule.code for finding in check(str(path), deep=True).findings}
    others = found - {code, "loader-empty", "data-zero"}
    if b"general.architecture" not in made():  # no model, and it does not say so
        others -= {"loader-architecture"}
    assert code in found
    assert others <= {CONSEQUENT.get(code), "trailing-bytes"}


def test_limits_of_size() -> None:
    """Asked alone: nobody wants files of a gigabyte or 2^18 tensors here."""
    many = rules.MAX_ENTRIES + 1
    file = GgufFile("a.gguf", memoryview(bytes(32 * many)))
    found = Findings(strict=False)
    found.check(rules.HEADER, Header(many, many, 8, 0), file)
    found.check(rules.HEADER, Header(many - 1, many - 1, 8, 0), file)
    assert [finding.rule.code for finding in found.entries] == ["key-limit", "tensor-limit"]
    with pytest.raises(FormatError, match="the limit is 1073741824"):
        rules.STRING_LENGTH.demand(rules.MAX_STRING_BYTES + 1, field="k", offset=0)
    rules.STRING_LENGTH.demand(rules.MAX_STRING_BYTES, field="k", offset=0)


def shard(number: int, count: int, total: int, name: bytes = b"") -> bytes:
    split = [
        V3.key(b"split.no", lay.U16, number),
        V3.key(b"split.count", lay.U16, count),
        V3.key(b"split.tensors.count", lay.I32, total),
    ]
    return V3.file(split, [row(name or b"t%d" % number)], bytes(16))


SETS = [
    ("split-number", "a.gguf", {"a.gguf": shard(2, 2, 2)}),
    ("split-name", "a.gguf", {"a.gguf": shard(0, 2, 2)}),
    ("split-file", "a-00001-of-00002.gguf",
     {"a-00001-of-00002.gguf": shard(0, 2, 2), "a-00002-of-00002.gguf": b"GGUF"}),
    ("split-said", "a-00001-of-00002.gguf",
     {"a-00001-of-00002.gguf": shard(0, 2, 2), "a-00002-of-00002.gguf": shard(0, 2, 2, b"u")}),
    ("split-tensor", "a-00001-of-00002.gguf",
     {"a-00001-of-00002.gguf": shard(0, 2, 1), "a-00002-of-00002.gguf": shard(1, 2, 1, b"t0")}),
    ("split-tensor-count", "a-00001-of-00002.gguf",
     {"a-00001-of-00002.gguf": shard(0, 2, 3), "a-00002-of-00002.gguf": shard(1, 2, 3)}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "opened", "files"), SETS)
def test_a_wrong_set_is_an_error_of_its_first_file(
    tmp_path: Path, code: str, opened: str, files: dict[str, bytes]
) -> None:
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    path = os.fspath(tmp_path / opened)
    strict, tolerant = (open_gguf(path, strict=strict) for strict in (True, False))
    found = shard_set(tolerant, strict=False)
    assert found is not None
    assert [finding.rule.code for finding in found.findings] == [code]
    if SEVERITY[code] != "error":
        assert shard_set(strict) == found
        return
    with pytest.raises(FormatError) as caught:
        shard_set(strict)
    assert str(tmp_path) in str(caught.value)


def test_an_edit_that_was_cut_short(tmp_path: Path) -> None:
    """The file is in order; what lies beside it says that it is not what was wanted."""
    path = tmp_path / "a.gguf"
    path.write_bytes(head(0, 0))
    assert not open_gguf(os.fspath(path), strict=False).findings
    (tmp_path / "a.gguf.journal").write_bytes(b"")
    found = open_gguf(os.fspath(path), strict=False).findings
    assert [finding.rule.code for finding in found] == ["edit-unfinished"]


def test_every_rule_is_broken_here() -> None:
    elsewhere = {"string-length", "key-limit", "tensor-limit", "edit-unfinished"}
    asked = {code for code, *_ in (*BROKEN, *SETS)} | elsewhere
    assert asked == set(SEVERITY)


def test_reading_goes_on_behind_damage() -> None:
    rows = row(b"a", kind=99), row(b"b", (3,), kind=8), row(b"b", offset=32), row(b"c", offset=5)
    raw = V3.file([V3.key(b"", lay.U32, 1), KEY(), KEY(), V3.key(b"z", lay.U8, 7)], list(rows), b"")
    file = read(raw, strict=False)
    assert [finding.rule.code for finding in file.findings] == [
        "key-empty", "key-twice", "tensor-type", "tensor-blocks", "tensor-twice",
        "tensor-alignment", "tensor-data",
    ]  # fmt: skip
    assert file.is_whole
    assert file.metadata["z"] == 7
    assert [tensor.name for tensor in file.tensors] == ["c"]
    cut = read(raw[:90], strict=False)
    assert not cut.is_whole
    assert cut.metadata["a.b"] == 1


@given(st.text(st.characters(codec="utf-8"), max_size=70) | st.binary(max_size=70))
def test_a_plain_name_breaks_no_rule(name: str | bytes) -> None:
    text = name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")
    if rules.is_plain(text):
        assert not any(rule.check(text, None, None) for rule in rules.NAME)


@given(st.data())
def test_strict_raises_the_first_error_that_tolerant_finds(data: st.DataObject) -> None:
    layout = data.draw(st.sampled_from([Layout(1), Layout(2), V3, Layout(3, ">")]))
    raw = bytearray(lay.sample(layout) if data.draw(st.booleans()) else lay.small(layout))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, raw[at] ^ 1]))
    del raw[data.draw(st.integers(len(raw) // 2, len(raw))) :]
    found = read(bytes(raw), strict=False)
    errors = [finding for finding in found.findings if finding.is_error]
    assert found.is_whole or errors
    try:
        strict = read(bytes(raw))
    except BrokenRule as error:
        assert error.finding == errors[0]
    else:
        assert not errors
        assert strict.findings == found.findings


def test_of_one_rule_so_many_findings_are_kept() -> None:
    count = 3 * MOST_OF_A_RULE
    file = read(V3.file([V3.key(b"K%d" % i, lay.U8, 1) for i in range(count)]))
    assert len(file.findings) == MOST_OF_A_RULE
    assert len(file.metadata) == count


def test_a_strict_reading_keeps_warnings_alone() -> None:
    findings = Findings(strict=True)
    findings.hold(rules.VALUE_TYPE, 3, field="k")
    with pytest.raises(BrokenRule, match="k: is of unknown type 13"):
        findings.hold(rules.VALUE_TYPE, 13, field="k")
    assert findings.entries == []
