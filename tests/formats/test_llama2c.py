"""tokenizer.bin: ids and text are run.c's, files come back byte for byte, damage is told.

ExecuTorch's header in front of the same tokens changes the ids of BOS and EOS and nothing else.
"""

from __future__ import annotations

import json
import struct

import pytest
from support import FIXTURES, shared, shared_json_lines, shared_tokenizer

from mtkit import formats
from mtkit.base.binary import Source
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats import llama2c, spm
from mtkit.formats.contract import WriteOptions
from mtkit.pipeline import Pipeline
from mtkit.spec import TokenType, fields, replace

FILES = {"llama-2": "tokenizer.bin", "tok512": "tok512.bin"}


def memory(data: bytes) -> Source:
    return Source("tokenizer.bin", data)


def packed(tokens: list[tuple[bytes, float]], longest: int | None = None) -> bytes:
    longest = max(len(raw) for raw, _ in tokens) if longest is None else longest
    return struct.pack("<I", longest) + b"".join(
        struct.pack("<fi", score, len(raw)) + raw for raw, score in tokens
    )


def small(*more: bytes) -> bytes:
    """Specials, bytes, a few characters, then ``more`` with rising scores."""
    tokens = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % byte for byte in range(256))]
    tokens += [b" ", b"a", b"b", b"\xc3\xa9"]
    return packed([(t, 0.0) for t in tokens] + [(t, float(n)) for n, t in enumerate(more)])


@pytest.mark.parametrize("name", FILES)
def test_golden(name: str) -> None:
    data = (shared_tokenizer(name) / FILES[name]).read_bytes()
    assert llama2c.sniff(memory(data))
    reading = llama2c.read(memory(data), {})
    assert len(reading.assumptions) == 3
    pipeline = Pipeline(reading.spec)
    inputs = json.loads(shared("tokenizers/golden/inputs.json").read_text("utf-8"))["inputs"]
    lines = shared_json_lines(f"tokenizers/golden/{name}.llama2c.jsonl.gz")
    compared = 0
    for line in lines:
        if "skip" in line:
            continue
        text = inputs[line["i"]]
        assert pipeline.encode_ids(text) == line["ids"], text
        wanted = bytes.fromhex(line["dx"]) if "dx" in line else line.get("d", text).encode()
        assert pipeline.decode_bytes(line["ids"], skip_special_tokens=False) == wanted, text
        compared += 1
    assert compared == 529
    assert llama2c.write(reading.spec, WriteOptions()).files[".bin"] == data


def test_export_of_llama_2_is_the_file_beside_it() -> None:
    folder = shared_tokenizer("llama-2")
    spec = spm.read(Source.open(str(folder / "tokenizer.model")), {}).spec
    written = llama2c.write(spec, WriteOptions())
    data = (folder / "tokenizer.bin").read_bytes()
    assert len(data) == 433869
    assert written.files == {".bin": data}
    assert {loss.code for loss in written.losses} == {
        "ids-special", "ids-possible", "decoding", "metadata"
    }  # fmt: skip


def test_own_fixture_and_the_loss_law() -> None:
    folder = FIXTURES / "spm-bpe"
    spec = spm.read(Source.open(str(folder / "tokenizer.model")), {}).spec
    written = llama2c.write(spec, WriteOptions())
    assert written.files[".bin"] == (folder / "tokenizer.bin").read_bytes()
    back = llama2c.read(memory(written.files[".bin"]), {}).spec
    lost = {loss.field.split(".")[0] for loss in written.losses}
    for name in fields(spec):
        assert (getattr(spec, name) == getattr(back, name)) == (name not in lost), name
    first, second = Pipeline(spec), Pipeline(back)
    for line in (folder / "cases.jsonl").read_text("utf-8").splitlines():
        text = json.loads(line)["text"]
        if "\u2581" not in text and "<" not in text:
            assert [1, *first.encode_ids(text)] == second.encode_ids(text), text


def test_listing_is_the_printout_of_the_article() -> None:
    folder = shared_tokenizer("llama-2")
    spec = spm.read(Source.open(str(folder / "tokenizer.model")), {}).spec
    lines = list(llama2c.listing(spec))
    assert lines[:2] == [b"vocab = 32000\n", b"max_token_length = 27\n"]
    assert lines[2:6] == [
        b"    0,     0.000000, (<unk>)\n",
        b"    1,     0.000000, (\n<s>\n)\n",
        b"    2,     0.000000, (\n</s>\n)\n",
        b"    3,     0.000000, (<0x00>)\n",
    ]
    assert lines[2 + 259] == b"  259, -1000000000.000000, (  )\n"
    assert lines[2 + 260] == b"  260,    -1.000000, ( t)\n"
    assert lines[-1] == "31999, -31740.000000, (给)\n".encode()
    own = llama2c.read(Source.open(str(folder / "tokenizer.bin")), {}).spec
    assert list(llama2c.listing(own)) == lines


def test_rules_of_the_reference() -> None:
    # "ab" beats "aé"; a byte token merges by its text; stray bytes go four at a time.
    spec = llama2c.read(memory(small(b" a", b"ab", b"<0xFF>a")), {}).spec
    pipeline = Pipeline(spec)
    base = 3 + 256
    assert pipeline.encode_ids("ab") == [1, base, base + 5]
    assert pipeline.encode_ids("a") == [1, base + 4]
    assert pipeline.encode_ids(b"\xffa") == [1, base, base + 6]
    assert pipeline.encode_ids("") == [1]
    assert pipeline.decode_bytes([1, base + 4, base + 4]) == b"a a"
    assert pipeline.decode_bytes([1, 3 + 0xC3, 3 + 0xA9, 3]) == "é".encode()
    assert pipeline.decode_bytes([base, 2], skip_special_tokens=False) == b" \n</s>\n"


def test_low_scores_never_merge() -> None:
    tokens = [b"<unk>", b"<s>", b"</s>", b" ", b"a", b" a"]
    for score, ids in ((-9.9e9, [1, 5]), (-1e10, [1, 3, 4]), (float("nan"), [1, 3, 4])):
        data = packed([(token, score) for token in tokens])
        assert Pipeline(llama2c.read(memory(data), {}).spec).encode_ids("a") == ids


def test_header_longer_than_the_longest_token_comes_back() -> None:
    data = struct.pack("<I", 77) + small()[4:]
    assert llama2c.write(llama2c.read(memory(data), {}).spec, WriteOptions()).files[".bin"] == data


def test_every_truncation() -> None:
    data = small(b"ab")
    whole = set()
    for size in range(len(data)):
        try:
            spec = llama2c.read(memory(data[:size]), {}).spec
        except FormatError:
            continue
        whole.add(size)
        assert llama2c.write(spec, WriteOptions()).files[".bin"][4:] == data[4:size]
    assert 200 < len(whole) < 270  # the ends of tokens after EOS


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 28, 1_000_000])
def test_forged_lengths(length: int) -> None:
    data = packed([(b"<unk>", 0.0), (b"<s>", 0.0), (b"</s>", 0.0)], longest=27)
    forged = data[:8] + struct.pack("<i", length) + data[12:]
    with pytest.raises(FormatError) as caught:
        llama2c.read(memory(forged), {})
    assert caught.value.offset == 8
    assert not llama2c.sniff(memory(forged))


def test_what_is_refused() -> None:
    spec = llama2c.read(memory(small()), {}).spec
    with pytest.raises(UnsupportedError, match="bos"):
        llama2c.write(replace(spec, special_ids=replace(spec.special_ids, bos=5)), WriteOptions())
    unigram = FIXTURES / "spm-unigram" / "tokenizer.model"
    with pytest.raises(UnsupportedError, match="Unigram"):
        llama2c.write(spm.read(Source.open(str(unigram)), {}).spec, WriteOptions())
    assert spec.vocabulary.type_of(3) is TokenType.BYTE


def long(tokens: list[tuple[bytes, float]], bos: int = 1, eos: int = 2, more: int = 0) -> bytes:
    """Lay out what ExecuTorch's exporter writes."""
    return struct.pack("<III", len(tokens) + more, bos, eos) + packed(tokens)


def rows(data: bytes) -> list[tuple[bytes, float]]:
    """Return the tokens of a llama2.c file, BOS and EOS as ExecuTorch spells them."""
    spec = llama2c.read(memory(data), {}).spec
    scores = spec.vocabulary.scores or ()
    found = [
        (piece.strip(b"\n"), s) for piece, s in zip(spec.vocabulary.pieces, scores, strict=True)
    ]
    return [*found[:3], *zip(list(spec.vocabulary.pieces)[3:], list(scores)[3:], strict=True)]


def test_executorch_file_gives_the_ids_of_the_file_without_its_header() -> None:
    plain = (shared_tokenizer("llama-2") / "tokenizer.bin").read_bytes()
    data = long(rows(plain))
    assert llama2c.sniff(memory(data))
    assert formats.recognize(memory(data)) is llama2c
    reading = llama2c.read(memory(data), {})
    assert reading.assumptions[:1] == ("id 0 is the unknown token",)
    first, second = Pipeline(llama2c.read(memory(plain), {}).spec), Pipeline(reading.spec)
    inputs = json.loads(shared("tokenizers/golden/inputs.json").read_text("utf-8"))["inputs"]
    for text in inputs[:200]:
        if not isinstance(text, str):
            continue
        ids = first.encode_ids(text)
        assert second.encode_ids(text) == ids, text
        assert first.decode_bytes(ids) == second.decode_bytes(ids), text


def test_executorch_bos_and_eos_are_those_of_the_header() -> None:
    tokens = [*rows(small(b" a")), (b"b a", 9.0)]
    tokens[1:3] = [(b"</s>", 0.0), (b"<s>", 0.0)]
    spec = llama2c.read(memory(long(tokens, bos=2, eos=1)), {}).spec
    assert (spec.special_ids.bos, spec.special_ids.eos, spec.special_ids.unk) == (2, 1, 0)
    assert Pipeline(spec).encode_ids("a") == [2, 3 + 256 + 4]
    assert Pipeline(spec).decode_bytes([2, 3 + 256 + 4]) == b"a"
    with pytest.raises(UnsupportedError, match="bos"):
        llama2c.write(spec, WriteOptions())


def test_executorch_counts_by_the_header() -> None:
    tokens = rows(small(b" a", b"ab"))
    fewer = struct.pack("<III", len(tokens) - 1, 1, 2) + packed(tokens)
    reading = llama2c.read(memory(fewer), {})
    assert len(reading.spec.vocabulary) == len(tokens) - 1
    assert any("10 bytes behind token" in text for text in reading.assumptions)
    padded = llama2c.read(memory(long(tokens, more=3)), {}).spec
    assert padded.vocabulary.pieces[-4:] == [b"ab", *[b"<pad>"] * 3]
    with pytest.raises(FormatError, match="count at offset 0"):
        llama2c.read(memory(long(tokens, more=1 << 23)), {})
    assert not llama2c.sniff(memory(long(tokens, more=1 << 30)))


def test_executorch_padding_in_front_is_kept() -> None:
    tokens = [(b"<pad>", -1.0), *rows(small(b"ab"))]
    data = struct.pack("<III", len(tokens) - 1, 1, 2) + packed(tokens)
    assert llama2c.sniff(memory(data))
    assert llama2c.read(memory(data), {}).spec.vocabulary.pieces[:3] == [b"<pad>", b"<unk>", b"<s>"]


def test_executorch_damage_is_told() -> None:
    data = long(rows(small(b" a", b"ab")))
    for size in range(len(data)):
        try:
            llama2c.read(memory(data[:size]), {})
        except FormatError:
            continue
    for at in range(64):
        for value in (0, 0x7F, 0xFF):
            changed = data[:at] + bytes((value,)) + data[at + 1 :]
            try:
                llama2c.read(memory(changed), {})
            except FormatError:
                continue
