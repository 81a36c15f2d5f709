"""``check`` of a tokenizer of any format: every rule has a tokenizer that only it finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import FIXTURES

from mtkit.base.packed import Numbers, Pieces
from mtkit.checks import check
from mtkit.checks.checker import all_rules, explain
from mtkit.checks.report import survey_findings
from mtkit.checks.tokenizer_rules import (
    AGAINST_RULES,
    RUN_RULES,
    TEMPLATE_RULES,
    TOKENIZER_RULES,
    VOCABULARY_RULES,
    TemplateTrial,
)
from mtkit.errors import UsageError
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    ChatTemplate,
    SpecialIds,
    TokenizerSpec,
    Vocabulary,
    models,
    normalizers,
    post_processors,
    pre_tokenizers,
    replace,
)
from mtkit.spec.models import Merges
from mtkit.spec.vocabulary import BYTE_TOKENS, Spelling, TokenType
from mtkit.tokenizer.tokenizer import Tokenizer
from mtkit.unicode.utf8 import BYTE_LETTERS

WORDS = [letter.encode() for letter in BYTE_LETTERS] + [b"he", b"<|end|>"]
COUNT, END = len(WORDS), len(WORDS) - 1
SOUND = TokenizerSpec(
    Vocabulary(Pieces.of(WORDS), Numbers.of("B", [1] * END + [TokenType.CONTROL])),
    models.BPE(Merges(Numbers.of("I", [WORDS.index(b"h"), WORDS.index(b"e")]), Pieces.of([]))),
    pre_tokenizer=pre_tokenizers.ByteLevel(),
    added_tokens=AddedTokens((AddedToken(END, b"<|end|>", special=True),)),
    special_ids=SpecialIds(eos=END),
)


def with_pieces(*pieces: bytes, **model: Any) -> TokenizerSpec:
    """Return the sound one with further normal tokens."""
    words = [*WORDS, *pieces]
    types = Numbers.of("B", [1] * END + [TokenType.CONTROL] + [1] * len(pieces))
    made = replace(SOUND, vocabulary=Vocabulary(Pieces.of(words), types))
    return replace(made, model=replace(made.model, **model)) if model else made


def merges(*pairs: tuple[int, int]) -> TokenizerSpec:
    numbers = Numbers.of("I", [number for pair in pairs for number in pair])
    model = models.BPE(Merges(numbers, Pieces.of([])))
    return replace(SOUND, model=model)


def around(number: int) -> TokenizerSpec:
    slots = (post_processors.Slot(ids=(number,)), post_processors.Slot(text=0))
    return replace(SOUND, post_processor=post_processors.Template(slots))


H, E = WORDS.index(b"h"), WORDS.index(b"e")
UNIGRAM = TokenizerSpec(
    Vocabulary(
        Pieces.of([*BYTE_TOKENS, b"a"]),
        Numbers.of("B", [TokenType.BYTE] * 256 + [1]),
        Numbers.of("f", [0.0] * 257),
    ),
    models.Unigram(byte_fallback=True),
)


def fallback(pieces: list[bytes], types: list[int], scores: list[float]) -> TokenizerSpec:
    return replace(
        UNIGRAM,
        vocabulary=Vocabulary(Pieces.of(pieces), Numbers.of("B", types), Numbers.of("f", scores)),
    )


BYTES = [TokenType.BYTE] * 256
BROKEN: list[tuple[str, TokenizerSpec]] = [
    ("token-twice", replace(with_pieces(b"he"), model=replace(SOUND.model, ignore_merges=True))),
    ("token-spellings", replace(SOUND, vocabulary=replace(
        SOUND.vocabulary, also=(Spelling(b"two", H),)))),
    ("token-empty", with_pieces(b"")),
    ("token-unreachable", with_pieces(b"hello")),
    ("byte-letters", replace(SOUND, vocabulary=Vocabulary(
        Pieces.of([b"?" if w == BYTE_LETTERS[0].encode() else w for w in WORDS]),
        SOUND.vocabulary.types))),
    ("merge-product", merges((H, E), (E, E))),
    ("merge-twice", merges((H, E), (H, E))),
    ("special-range", replace(SOUND, special_ids=SpecialIds(eos=END, pad=COUNT))),
    ("special-type", replace(SOUND, special_ids=SpecialIds(eos=END, bos=H))),
    ("added-token-twice", replace(SOUND, added_tokens=AddedTokens((
        *SOUND.added_tokens.tokens, AddedToken(COUNT, b"<|end|>", special=True))))),
    ("added-id-range", around(COUNT)),
    ("byte-token-form", fallback([*BYTE_TOKENS, b"a", b"<0xZZ>"], [*BYTES, 1, 6], [0.0] * 258)),
    ("byte-tokens", fallback([*BYTE_TOKENS[1:], b"a"], [*BYTES[1:], 1], [0.0] * 256)),
    ("score-number", fallback([*BYTE_TOKENS, b"a"], [*BYTES, 1], [0.0] * 256 + [float("nan")])),
]  # fmt: skip


def codes(spec: TokenizerSpec) -> set[str]:
    found = (
        *survey_findings(VOCABULARY_RULES, spec.vocabulary),
        *survey_findings(TOKENIZER_RULES, spec),
    )
    return {finding.rule.code for finding in found}


@pytest.mark.parametrize("spec", [SOUND, UNIGRAM])
def test_a_sound_tokenizer_breaks_no_rule(spec: TokenizerSpec) -> None:
    assert not codes(spec)
    assert not list(survey_findings(RUN_RULES, Tokenizer(spec)))


@pytest.mark.parametrize(("code", "spec"), BROKEN)
def test_a_broken_rule_is_found_and_no_other(code: str, spec: TokenizerSpec) -> None:
    wanted = {code}
    if code == "byte-letters":
        wanted.add("token-twice")  # there are 256 letters, and "?" is one
    assert codes(spec) == wanted


def test_ids_filled_up_are_no_tokens_twice() -> None:
    assert "token-twice" not in codes(with_pieces(b"<pad>", b"<pad>", b"<pad>"))


def test_a_map_that_leads_nowhere_does_not_run() -> None:
    broken = replace(SOUND, normalizer=normalizers.Precompiled(b"\x10\0\0\0" + b"\xff" * 16))
    (finding,) = survey_findings(RUN_RULES, Tokenizer(broken))
    assert finding.rule.code == "tokenizer-runs"


def chat(text: str, **fields: Any) -> TemplateTrial:
    spec = replace(SOUND, **fields) if fields else SOUND
    return TemplateTrial(ChatTemplate("default", text), Tokenizer(spec))


OPENS = "{% if add_generation_prompt %}> {% endif %}"
PLAIN = "{{ messages[0].content }}<|end|>" + OPENS
TEMPLATES = [
    ("template-syntax", "{% if %}"),
    ("template-limits", "{% for a in range(99999) %}{% for b in range(99999) %}" + OPENS
     + "{% endfor %}{% endfor %}"),
    ("template-refuses", "{{ raise_exception('a system message, please') }}"),
    ("template-answer", "{{ messages[0].content }}"),
    ("template-tokens", "<|other|>" + PLAIN),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text"), TEMPLATES)
def test_a_template_breaks_one_rule(code: str, text: str) -> None:
    assert [finding.rule.code for finding in survey_findings(TEMPLATE_RULES, chat(text))] == [code]


def test_a_sound_template_breaks_none() -> None:
    assert not list(survey_findings(TEMPLATE_RULES, chat(PLAIN)))


def test_bos_of_the_template_and_of_encoding() -> None:
    """Only where encoding adds it, too."""
    ids = SpecialIds(eos=END, bos=END)
    both = chat("{{ bos_token }}" + PLAIN, special_ids=ids,
                post_processor=around(END).post_processor)  # fmt: skip
    assert [finding.rule.code for finding in survey_findings(TEMPLATE_RULES, both)] == [
        "template-bos-twice"
    ]
    assert not list(
        survey_findings(TEMPLATE_RULES, chat("{{ bos_token }}" + PLAIN, special_ids=ids))
    )


def test_every_rule_about_tokenizers_is_tried() -> None:
    tried = {code for code, _ in (*BROKEN, *TEMPLATES)} | {"template-bos-twice", "tokenizer-runs"}
    assert {
        row.code for row in (*VOCABULARY_RULES, *TOKENIZER_RULES, *RUN_RULES, *TEMPLATE_RULES)
    } == tried
    assert {
        row.code
        for row in (
            *VOCABULARY_RULES,
            *TOKENIZER_RULES,
            *RUN_RULES,
            *TEMPLATE_RULES,
            *AGAINST_RULES,
        )
    } <= {row.code for row in all_rules()}


def test_every_code_is_explained() -> None:
    for rule in all_rules():  # those of one code say the same
        assert dict(explain(rule.code))["meaning"] == rule.explanation
    with pytest.raises(UsageError, match="is it token-twice"):
        explain("token-twise")


@pytest.mark.parametrize("folder", sorted(path.name for path in FIXTURES.iterdir()))
def test_our_own_tokenizers_are_sound(folder: str) -> None:
    report = check(str(FIXTURES / folder))
    assert report.findings == ()


def test_a_damaged_file_is_one_finding(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text('{"version": "1.0", "model": {"type": "BPE", "vocab": 3, "merges": []}}')
    report = check(str(path))
    assert [finding.rule.code for finding in report.findings] == ["tokenizer"]
    assert (report.exit_code, report.skipped[0][0]) == (3, "tokenizer")


def test_what_is_not_known_is_not_clean(tmp_path: Path) -> None:
    document = json.loads((FIXTURES / "bbpe-8k" / "tokenizer.json").read_text(encoding="utf-8"))
    document["normalizer"] = {"type": "Invented"}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document))
    report = check(str(path))
    assert report.exit_code
    assert (
        "tokenizer",
        "it has parts that mtkit does not support",
    ) in report.skipped or report.count("error")


def test_a_template_against_another(tmp_path: Path) -> None:
    source = FIXTURES / "bbpe-8k"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    assert not check(str(tmp_path), against=str(source)).findings
    config = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    config["chat_template"] = config["chat_template"].replace("assistant", "robot")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (finding,) = check(str(tmp_path), against=str(source)).findings
    assert finding.rule.code == "template-against"
    line = config["chat_template"].split("robot")[0].count("\n") + 1
    assert f"first in line {line}" in finding.what
