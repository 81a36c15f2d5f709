"""Changes of a JSON document: keys, values and types at any depth."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from small_files import DOCUMENTS, document

from mtkit.base.binary import Source
from mutants import byte_level

if TYPE_CHECKING:
    from random import Random

LONE, BYTE = "\ud800", "a\udc80"
"""A surrogate that no UTF-8 has, and one that stands for a byte inside mtkit."""
PATTERNS = (r"\p{}", r"\p{^", "(?", "{9,", r"\x{D800}", r"\x{110000}", "[^", "&&", "(?i:", "*+",
            r"\u", "|", ")", "]", r"\Q", r"[[:alpha:", "(?<n>", r"\k<n>", "$^", "{2}{3}", "a-",
            r"\p{Lu}", "(?=", "(?<!", r"\b", "{1000}")  # fmt: skip
"""Parts of split patterns."""
STRINGS = ("", " ", "a", "ab", "\u2581", "##", "</w>", "<unk>", LONE, BYTE, "\0", "\n",
           "\U0010ffff", "<0x41>", "\u0120a", r"\p{L}+|\s", "(", "(a*)*b", "[^a]", "\u0130",
           "x" * 400)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 3, 5, 100, 257, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1,
           1 << 32, 1 << 63, 1 << 64, 10**30, -(1 << 63), 0.5, -0.0, 1e-320, 1e300, 10**400,
           float("nan"), float("inf"))  # fmt: skip
CONSTANTS = (None, True, False)
SETS = ([], {}, [[]], {"": 0}, [LONE], ["a", "b"], [0, 1], {"type": "Sequence"})
MARK = "\ue000"
"""Stands for the elements of a document that are to be nested deep."""


def mutate(rng: Random, data: bytes) -> bytes:
    """Change a document; what is not valid JSON has its bytes changed."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return byte_level.mutate(rng, data)
    return dumps(rng, mutated(rng, value))


def dumps(rng: Random, value: Any) -> bytes:
    """Write a document, surrogates as escapes or as they are."""
    ascii_only = rng.random() < 0.7
    text = json.dumps(value, ensure_ascii=ascii_only)
    if MARK in text or "\\ue000" in text:
        depth = rng.choice((40, 70, 150, 5000, 100_000))
        nested = "[" * depth + "]" * depth
        text = text.replace(f'"{MARK}"', nested).replace('"\\ue000"', nested)
    return text.encode("utf-8", "surrogatepass")


def mutated(rng: Random, document: Any) -> Any:
    """Return a changed copy of JSON data."""
    document = copy.deepcopy(document)
    holder = [document]
    parent, key = _place(rng, holder)
    found = parent[key]
    match rng.randrange(10):
        case 0 | 1:
            parent[key] = odd(rng)
        case 2 | 3 | 4:
            parent[key] = tweaked(rng, found)
        case 5 if parent is not holder:
            del parent[key]
        case 6 if isinstance(parent, dict):
            other = rng.choice([*parent, *STRINGS, "type"])
            parent[other] = parent.pop(key) if rng.random() < 0.5 else found
        case 7:
            elsewhere, there = _place(rng, holder)
            parent[key] = copy.deepcopy(elsewhere[there])
        case 8:
            parent[key] = [found] if rng.random() < 0.7 else MARK
        case _:
            parent[key] = odd(rng)
    return holder[0]


def odd(rng: Random) -> Any:
    """Return a value that hardly fits anywhere."""
    return copy.deepcopy(rng.choice(rng.choice((STRINGS, STRINGS, NUMBERS, CONSTANTS, SETS))))


def tweaked(rng: Random, value: Any) -> Any:
    """Return a value of the same type that is a little different."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return rng.choice((value + 1, value - 1, -value, value * 2, rng.choice(NUMBERS)))
    if isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        if len(value) > 5 and rng.random() < 0.5:
            return value[:at] + rng.choice(PATTERNS) + value[at:]
        return rng.choice(
            (
                value[:at] + rng.choice(STRINGS) + value[at:],
                value[:at],
                value[at:],
                value[:at] + value[at + 1 :],
                rng.choice(STRINGS),
            )
        )
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        match rng.randrange(4):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return value[: at + 1] + value[at:]
            case 2:
                return [*value, odd(rng)]
            case _:
                return rng.sample(value, len(value))
    if isinstance(value, dict):
        return {**value, rng.choice(STRINGS): odd(rng)}
    return odd(rng)


def _place(rng: Random, holder: list[Any]) -> tuple[Any, Any]:
    """Choose a value by a walk from the root: shallow ones as often as the many deep ones."""
    parent: Any = holder
    key: Any = 0
    while True:
        value = parent[key]
        if not isinstance(value, (dict, list)) or not value or rng.random() < 0.15:
            return parent, key
        parent, key = (
            value,
            rng.choice(list(value) if isinstance(value, dict) else range(len(value))),
        )


def with_files_beside() -> dict[str, Source]:
    """Return tokenizer.json files with the files that may lie beside them."""
    config = {
        "bos_token": "<x>",
        "eos_token": {"content": "a", "lstrip": False},
        "chat_template": [{"name": "default", "template": "{{ messages[0].content }}"}],
        "model_max_length": 10**30,
    }
    beside = {
        "tokenizer_config.json": config,
        "special_tokens_map.json": {"pad_token": "b"},
        "generation_config.json": {"eos_token_id": [1, 2]},
    }
    files = {name: json.dumps(value).encode() for name, value in beside.items()}
    return {
        f"hf:{name}, with others": Source(
            "tokenizer.json", whole, siblings={"tokenizer.json": whole, **files}
        )
        for name, whole in ((name, _rich(name)) for name in DOCUMENTS)
    }


def _rich(name: str) -> bytes:
    """Return a tokenizer.json with every stage there is."""
    value = json.loads(document(name))
    slot = {"SpecialToken": {"id": "<x>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    value |= {
        "truncation": {"max_length": 5, "stride": 1, "strategy": "LongestFirst",
                       "direction": "Right"},
        "padding": {"strategy": {"Fixed": 6}, "direction": "Left", "pad_to_multiple_of": 4,
                    "pad_id": 2, "pad_type_id": 0, "pad_token": "b"},
        "post_processor": {"type": "Sequence", "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
            {"type": "TemplateProcessing", "single": [slot, text], "pair": [text, slot, text],
             "special_tokens": {"<x>": {"id": "<x>", "ids": [12], "tokens": ["<x>"]}}},
        ]},
        "decoder": value.get("decoder") or {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
    }  # fmt: skip
    return json.dumps(value).encode()
