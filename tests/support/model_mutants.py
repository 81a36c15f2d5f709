"""Damaged and hostile model files, drawn from sound ones.

A mutant is a sound model with one to three of the ``MUTATIONS`` applied, drawn from a seed and a
number alone.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from gguf_draft import Draft
from odd_values import (
    ADDED_KEYS,
    CHAT,
    ODD_FLOATS,
    ODD_NUMBERS,
    ODD_TEXTS,
    TEMPLATES,
)
from support import reference
from tensor_mutants import tensor_data, tensor_name, tensor_offset, tensor_shape, tensor_type

from mtkit.gguf.types import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def _odd(chance: random.Random, kind: str, value: Any) -> Any:
    """Return another value of a type."""
    if kind.endswith("[]"):
        return _odd_array(chance, kind, value)
    if kind == "string":
        return chance.choice(ODD_TEXTS)
    if kind == "bool":
        return chance.choice((0, 1, 1, 2, 255))
    if kind in ("f32", "f64"):
        old = value if isinstance(value, float) else 1.0
        return chance.choice((*ODD_FLOATS, old * 2, -old))
    old = value if type(value) is int else 8
    return chance.choice((*ODD_NUMBERS, old + 1, old - 1, old * 2, old // 2, -old, old * 3))


def _odd_array(chance: random.Random, kind: str, value: Any) -> Any:
    plain = kind[:-2]
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    way = chance.randrange(6)
    if way == 0 or not values:
        return [_odd(chance, plain, 1) for _ in range(chance.choice((0, 1, 2, 3, 4, 8, 700)))]
    if way == 1:
        return values[: chance.randrange(len(values))]
    if way == 2:
        return values + values[: chance.choice((1, 2, 100))]
    if way == 3:
        return chance.sample(values, len(values))
    for _ in range(chance.choice((1, 1, 3, 50))):
        values[chance.randrange(len(values))] = _odd(chance, plain, values[0])
    return values


def _any_key(chance: random.Random, draft: Draft) -> list[Any]:
    """Draw a key; those that are about numbers of the architecture come twice as often."""
    own = [key for key in draft.keys if key[0].startswith(draft.arch.encode() + b".")]
    return chance.choice(own if own and chance.random() < 0.5 else draft.keys)


def forge_value(chance: random.Random, draft: Draft) -> None:
    """Give a key another value."""
    key = _any_key(chance, draft)
    key[2] = _odd(chance, key[1], key[2])


def forge_type(chance: random.Random, draft: Draft) -> None:
    """Give a key another type."""
    key = _any_key(chance, draft)
    kind = chance.choice([name for name in BY_NAME if name != "array"])
    key[1] = kind + "[]" * (chance.random() < 0.3)


def drop_key(chance: random.Random, draft: Draft) -> None:
    """Leave a key out."""
    draft.keys.remove(_any_key(chance, draft))


def double_key(chance: random.Random, draft: Draft) -> None:
    """Write a key twice, the second time with another value."""
    name, kind, value = _any_key(chance, draft)
    again = [name, kind, _odd(chance, kind, value)]
    draft.keys.insert(chance.randrange(len(draft.keys) + 1), again)


def add_key(chance: random.Random, draft: Draft) -> None:
    """Add a key that llama.cpp knows."""
    name, kind = chance.choice(ADDED_KEYS)
    draft.set(name.format(arch=draft.arch), kind, _odd(chance, kind, []))


def other_architecture(chance: random.Random, draft: Draft) -> None:
    """Call the model one of another architecture, its keys too."""
    names = list(reference("gguf").MODEL_ARCH_NAMES.values())
    new = chance.choice(names)
    for key in draft.keys:
        if key[0].startswith(draft.arch.encode() + b"."):
            key[0] = new.encode() + key[0][len(draft.arch) :]
    draft.set("general.architecture", "string", new)
    draft.arch = new


def token_texts(chance: random.Random, draft: Draft) -> None:
    """Change texts of tokens: two of one text, none, bytes that are not text."""
    tokens = draft.value("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or len(tokens) < 2:
        return
    for _ in range(chance.choice((1, 1, 5, 100))):
        at = chance.randrange(len(tokens))
        other = chance.randrange(len(tokens))
        tokens[at] = tokens[other] if chance.random() < 0.4 else chance.choice(ODD_TEXTS)


def token_columns(chance: random.Random, draft: Draft) -> None:
    """Change types or scores of tokens."""
    name, odd = chance.choice(
        (("token_type", (0, 1, 2, 3, 4, 5, 6, 7, 99, -1)), ("scores", ODD_FLOATS))
    )
    column = draft.value(f"tokenizer.ggml.{name}")
    if isinstance(column, list) and column:
        for _ in range(chance.choice((1, 10, len(column)))):
            column[chance.randrange(len(column))] = chance.choice(odd)


def tokenizer_model(chance: random.Random, draft: Draft) -> None:
    """Name another kind of tokenizer."""
    name = chance.choice(("llama", "gpt2", "bert", "t5", "rwkv", "plamo2", "no_vocab", "none", "x"))
    draft.set("tokenizer.ggml.model", "string", name)
    if name == "t5" and chance.random() < 0.7:
        size = chance.choice((0, 1, 4, 5, 100, 1000))
        draft.set("tokenizer.ggml.precompiled_charsmap", "u8[]", list(chance.randbytes(size)))


def merges(chance: random.Random, draft: Draft) -> None:
    """Change merges: no space, many spaces, pieces that are not tokens."""
    found = draft.value("tokenizer.ggml.merges")
    listed = found if isinstance(found, list) and found else ["a b"]
    for _ in range(chance.choice((1, 5, 100))):
        odd = ("", " ", "a", "a b c", "  ", "\u0120 t", "zz qq", "\xff \xff", "x" * 3000 + " y")
        listed[chance.randrange(len(listed))] = chance.choice(odd)
    draft.set("tokenizer.ggml.merges", "string[]", listed)


def special_ids(chance: random.Random, draft: Draft) -> None:
    """Let special tokens be ids that there are not."""
    name = chance.choice(("bos", "eos", "unknown", "padding", "eot", "eom", "mask", "fim_mid"))
    draft.set(f"tokenizer.ggml.{name}_token_id", "u32", chance.choice(ODD_NUMBERS))


def template(chance: random.Random, draft: Draft) -> None:
    """Give it another chat template."""
    draft.set("tokenizer.chat_template", "string", chance.choice(TEMPLATES))


def header(chance: random.Random, draft: Draft) -> None:
    """Let the header say something else."""
    way = chance.randrange(3)
    if way == 0:
        draft.version = chance.choice((0, 1, 2, 4, 1 << 24, 50331648))
    elif way == 1:
        draft.n_keys = chance.choice((0, 1, len(draft.keys) + 1, len(draft.keys) - 1, 1 << 60))
    else:
        count = len(draft.tensors)
        draft.n_tensors = chance.choice((0, 1, count + 1, count - 1, 1 << 60))


def cut(chance: random.Random, draft: Draft) -> None:
    """Cut the file."""
    part = chance.choice((chance.random(), chance.random() * 0.05, 0.999, 1.0))
    less = chance.randrange(1, 64)

    def edit(whole: bytearray) -> None:
        del whole[max(int(len(whole) * part) - less, 0) :]

    draft.edits.append(edit)


def flip(chance: random.Random, draft: Draft) -> None:
    """Change bytes, mostly of the head."""
    count, near = chance.choice((1, 1, 2, 8)), chance.random() < 0.8

    def edit(whole: bytearray) -> None:
        for _ in range(count if whole else 0):
            at = chance.randrange(min(len(whole), 40_000) if near else len(whole))
            whole[at] = chance.choice((0, 1, 127, 128, 255, whole[at] ^ 1 << chance.randrange(8)))

    draft.edits.append(edit)


MUTATIONS: tuple[Callable[[random.Random, Draft], object], ...] = (
    forge_value, forge_value, forge_value, forge_value, forge_type, drop_key, double_key, add_key,
    add_key, add_key, other_architecture, token_texts, token_columns, token_columns,
    tokenizer_model, merges, special_ids, template, tensor_shape, tensor_shape, tensor_type,
    tensor_name, tensor_name, tensor_offset, tensor_data, tensor_data, header, cut, flip,
)  # fmt: skip


def mutant(bases: Sequence[Path], seed: int, number: int) -> tuple[bytes, str]:
    """Return a mutant and what it is, drawn from a seed and its number."""
    chance = random.Random(f"{seed}/{number}")
    base = bases[number % len(bases)]
    draft = Draft(base)
    if draft.value("tokenizer.chat_template") is None:
        draft.set("tokenizer.chat_template", "string", CHAT)
    done = [base.stem]
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        mutation = chance.choice(MUTATIONS)
        if draft.keys:
            mutation(chance, draft)
            done.append(mutation.__name__)
    return draft.bytes(), " ".join(done)
