"""MNN's four text formats mean what its loader makes of them; damage is a clear error."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import FIXTURES, shared, shared_json_lines

from mtkit.base.binary import Source
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats import hf, mnn_text, recognize
from mtkit.formats.contract import WriteOptions
from mtkit.pipeline import Pipeline
from mtkit.pipeline.byte_decoders import decode_single_token

KINDS = ("kind0_t_llama2", "kind1_t_gpt2", "kind2_t_bert", "kind3_t_gpt2")


@pytest.mark.parametrize("name", KINDS)
def test_encodes_and_decodes_as_upstream(name: str) -> None:
    source = Source.open(str(shared(f"mtok/{name}.txt")))
    assert recognize(source).NAME == "mnn-text"
    spec = mnn_text.read(source, {}).spec
    pipeline = Pipeline(spec)
    rows = shared_json_lines(f"mtok/{name}.jsonl.gz")
    assert len(rows) == 815
    for row in rows:
        assert pipeline.encode_ids(row["text"]) == row["ids"], row["text"]
        assert pipeline.decode_bytes(row["ids"]) == base64.b64decode(row["decode_b64"])
        singles = [decode_single_token(spec, token_id) for token_id in row["ids"]]
        assert b"".join(singles) == base64.b64decode(row["stream_b64"])


def encoded(*pieces: bytes) -> str:
    return "".join(base64.b64encode(piece).decode() + "\n" for piece in pieces)


SMALL = {
    0: f"430 0\n1 0 1\n1 1\n3\n{base64.b64encode(b'<unk>').decode()} 0 2\n"
    f"{base64.b64encode(b'<s>').decode()} 0 3\n{base64.b64encode(b'a').decode()} -1.5 1\n",
    1: "430 1\n0 0 0\n\n3\n" + encoded(b"a", b"ab", b"b"),
    2: "430 2\n0 0 0\n\n3\n" + encoded(b"[UNK]", b"ab", b"##c"),
    3: "430 3\n0 1 0\n2\n3 1\na\nb\nab\na b\n",
}


@pytest.mark.parametrize(
    ("kind", "text", "ids"),
    [
        (1, "abab", [1, 1]),
        (2, "ABc abx b", [1, 2, 1, 0, 0]),  # what was found stays in front of the unknown rest
        (3, "ab", [2]),
    ],
)
def test_files_laid_out_by_hand(kind: int, text: str, ids: list[int]) -> None:
    spec = mnn_text.read(Source("small", SMALL[kind].encode()), {}).spec
    assert Pipeline(spec).encode_ids(text) == ids


@pytest.mark.parametrize("kind", SMALL)
def test_write_undoes_read(kind: int) -> None:
    spec = mnn_text.read(Source("small", SMALL[kind].encode()), {}).spec
    result = mnn_text.write(spec, WriteOptions())
    assert result.losses == ()
    (data,) = result.files.values()
    assert data.split()[:2] == SMALL[kind].encode().split()[:2]
    assert mnn_text.read(Source("again", data), {}).spec == spec


@pytest.mark.parametrize("name", KINDS)
def test_write_undoes_read_of_whole_vocabularies(name: str) -> None:
    spec = mnn_text.read(Source.open(str(shared(f"mtok/{name}.txt"))), {}).spec
    result = mnn_text.write(spec, WriteOptions())
    assert result.losses == ()
    (data,) = result.files.values()
    assert mnn_text.read(Source("again", data), {}).spec == spec


@pytest.mark.parametrize("name", ["bbpe-8k", "wordpiece", "spm-bpe", "spm-unigram-id"])
def test_a_tokenizer_with_other_rules_is_refused(name: str) -> None:
    path = FIXTURES / name / "tokenizer.json"
    spec = hf.read(Source.open(str(path)), {}).spec
    with pytest.raises(UnsupportedError):
        mnn_text.write(spec, WriteOptions())


@given(st.sampled_from(sorted(SMALL)), st.data())
def test_damage_is_a_clear_error(kind: int, data: st.DataObject) -> None:
    content = bytearray(SMALL[kind].encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    del content[data.draw(st.integers(0, len(content))) :]
    try:
        reading = mnn_text.read(Source("damaged", bytes(content)), {})
    except FormatError as error:
        assert "\n" not in str(error)
    else:
        assert len(reading.spec.vocabulary) <= len(content)


@pytest.mark.parametrize("count", [1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1])
def test_forged_counts_are_refused(count: int) -> None:
    for head in (f"430 1\n{count} 0 0\n\n1\nYQ==\n", f"430 1\n0 0 0\n\n{count}\nYQ==\n"):
        with pytest.raises(FormatError):
            mnn_text.read(Source("forged", head.encode()), {})
