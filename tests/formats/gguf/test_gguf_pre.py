"""Every name of a pre-tokenizer splits as llama.cpp does.

Held on two vocabularies, GPT-2's and one of all byte pairs, where every cut shows in the ids: all
texts in the native engine, a third of them in the pipeline (all with ``MTKIT_FULL=1``).
"""

import json
import os

import gguf_golden as golden
import pytest
from support import shared

from mtkit.formats.gguf.pre_tokenizers import NAMES, RULES, splitter

STRIDE = 1 if os.environ.get("MTKIT_FULL") else 3
FOLDER = "gguf-vocab/golden/pre"


def index() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(shared(f"{FOLDER}/index.json").read_bytes())
    return found


@pytest.mark.parametrize("rule", sorted(RULES))
def test_rule_equals_llama_cpp(rule: str) -> None:
    listed = index()
    files = {
        entry[vocabulary]
        for name, entry in listed.items()
        if name in NAMES and NAMES[name].rule == rule
        for vocabulary in ("gpt-2", "bpe-pairs")
        if entry.get(vocabulary)
    }
    if not files:  # those that need another alphabet are golden/variants
        assert {name for name, pre in NAMES.items() if pre.rule == rule} <= {
            "gemma4",
            "granite-embed-multi-311m",
            "sarvam-moe",
            "whitespace",
        }
    for file in sorted(files):
        header, rows = golden.read_golden(golden.FOLDER / "pre" / file)
        spec = golden.load(header["file"], header["override"])
        assert golden.mismatches(spec, rows[::STRIDE]) == [], file
        assert golden.engine_mismatches(spec, rows) == [], file


def test_names_of_one_file_mean_the_same() -> None:
    listed = index()
    assert len(listed) > 80
    assert {name for name, entry in listed.items() if entry.get("gpt-2")} <= set(NAMES)
    for name, entry in listed.items():
        if not entry.get("gpt-2"):
            continue
        other = golden.read_golden(golden.FOLDER / "pre" / entry["gpt-2"])[0]["override"]
        mine, theirs = NAMES[name], NAMES[other["tokenizer.ggml.pre"]]
        assert splitter(mine.rule) == splitter(theirs.rule), name
        for switch in ("ignore_merges", "add_bos", "byte_alphabet", "escape_whitespaces"):
            assert getattr(mine, switch) == getattr(theirs, switch), (name, switch)


def test_the_table_is_the_published_one() -> None:
    table = json.loads(shared("gguf-vocab/pre_tokenizers.json").read_bytes())
    assert set(table["names"]) == set(NAMES)
    by_patterns: dict[str, set[str]] = {}
    for name, entry in table["names"].items():
        kind, mine = table["types"][entry["type"]], NAMES[name]
        by_patterns.setdefault(json.dumps(kind["regex"]), set()).add(mine.rule)
        assert mine.byte_alphabet is kind["byte_encode"], name
        assert mine.default_bos is ("special_bos_id" not in entry), name
        assert mine.clean_spaces is (entry.get("clean_spaces", "true") == "true"), name
        for switch in ("ignore_merges", "add_bos", "add_sep", "escape_whitespaces"):
            assert getattr(mine, switch) is (entry.get(switch) == "true"), (name, switch)
    assert all(len(rules) == 1 for rules in by_patterns.values())
    assert len(by_patterns) == len(RULES)
