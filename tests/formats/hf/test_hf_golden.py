"""Every stored answer of ``tokenizers`` for every stored tokenizer.json is mtkit's answer, too.

Ids with and without special tokens, offsets, decoding, pairs, padding and truncation of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support import golden_inputs, golden_names, shared_json_lines, shared_tokenizer

from mtkit.base.binary import Source
from mtkit.engine import load_engine
from mtkit.formats import hf
from mtkit.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator


def differences(pipeline: Any, texts: list[str], answers: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Compare each answer; yield what differs as (kind, input, made, wanted)."""
    for answer in answers:
        if "pair" in answer:
            first, second = (texts[i] for i in answer["pair"])
            made = pipeline.encode(first, second)
            found = {"ids": made.ids, "tid": made.type_ids, "mask": made.special_tokens_mask}
            for key, value in found.items():
                if value != answer[key]:
                    yield (f"pair {key}", answer["pair"], value, answer[key])
            continue
        if "padtrunc" in answer:
            made = pipeline.encode(texts[answer["padtrunc"]], padding="file", truncation="file")
            if made.ids != answer["ids"]:
                yield ("padded ids", answer["padtrunc"], made.ids, answer["ids"])
            if made.attention_mask != answer["am"]:
                yield ("padding", answer["padtrunc"], made.attention_mask, answer["am"])
            continue
        number = answer["i"]
        text = texts[number]
        plain = pipeline.encode(text, add_special_tokens=False)
        special = pipeline.encode_ids(text)
        wanted = answer.get("sp", answer["ids"])
        decoded = answer.get("d", text)
        checks = [
            ("ids", plain.ids, answer["ids"]),
            ("ids with special tokens", special, wanted),
            ("decoded", pipeline.decode(wanted, skip_special_tokens=False), decoded),
            ("decoded plain", pipeline.decode(wanted), answer.get("ds", decoded)),
        ]
        if "off" in answer:
            flat = [place for pair in plain.offsets for place in pair]
            checks.append(("offsets", flat, answer["off"]))
        for kind, made, right in checks:
            if made != right:
                yield (kind, number, made, right)


@pytest.mark.parametrize("name", golden_names("hf"))
def test_stored_answers(name: str) -> None:
    answers = shared_json_lines(f"tokenizers/golden/{name}.hf.jsonl.gz")
    source = Source.open(str(shared_tokenizer(name) / "tokenizer.json"))
    spec = hf.read(source, {}).spec
    assert len(answers) >= 500
    assert list(differences(Pipeline(spec), golden_inputs(), answers))[:3] == []
    engine = load_engine(spec)
    if not isinstance(engine, Pipeline):
        assert list(differences(engine, golden_inputs(), answers))[:3] == []
