"""What is in a tokenizer: its stages, its vocabulary by role, special and longest tokens."""

from __future__ import annotations

from mtkit.base.record import Record, fields
from mtkit.spec.models import Merges
from mtkit.spec.post_processors import Slot
from mtkit.spec.vocabulary import TokenType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.base.packed import Numbers, Pieces
    from mtkit.spec import TokenizerSpec

STAGES = ("normalizer", "pre_tokenizer", "model", "post_processor", "decoder")
_LONGEST = 5
_SHOWN_LETTERS = 200


class Stage(Record):
    """One component of a stage.

    Attributes:
        name: Name of the component; "none" where the stage does nothing.
        settings: Its fields that differ from their defaults, long ones summed up.
    """

    stage: str
    name: str
    settings: tuple[tuple[str, str], ...]


class TokenizerReport(Record):
    """A tokenizer, summed up.

    Attributes:
        counts: Role of a token -> number of ids; "added" and "special" count added tokens.
        special_ids: Role -> id.
        added: Added tokens as (id, content, flags).
        longest: The longest pieces as (id, piece).
        templates: Name of each chat template -> its length in characters.
    """

    vocab_size: int
    stages: tuple[Stage, ...]
    counts: dict[str, int]
    special_ids: dict[str, int]
    added: tuple[tuple[int, bytes, tuple[str, ...]], ...]
    longest: tuple[tuple[int, bytes], ...]
    templates: dict[str, int]


def inspect_tokenizer(spec: TokenizerSpec) -> TokenizerReport:
    """Sum up a tokenizer."""
    stages = [stage for name in STAGES for stage in _stages(name, getattr(spec, name))]
    roles = {name: getattr(spec.special_ids, name) for name in fields(spec.special_ids)}
    special = {name: i for name, i in roles.items() if isinstance(i, int)}
    flags = ("special", "single_word", "lstrip", "rstrip", "normalized")
    added = tuple(
        (token.id, token.content, tuple(flag for flag in flags if getattr(token, flag)))
        for token in spec.added_tokens.tokens
    )
    pieces = spec.vocabulary.pieces
    ends = pieces.ends
    order = sorted(range(len(pieces)), key=lambda i: (ends[i - 1] if i else 0) - ends[i])[:_LONGEST]
    return TokenizerReport(
        spec.vocab_size,
        tuple(stages),
        _role_counts(spec),
        special,
        added,
        tuple((i, pieces[i]) for i in order),
        {template.name: len(template.text) for template in spec.chat_templates},
    )


def specification_document(spec: TokenizerSpec) -> dict[str, Any]:
    """Return the whole specification but vocabulary and merges, with counts, as JSON data."""
    from mtkit.spec.codec import encode

    def keep(value: Numbers | Pieces | bytes, _: str) -> dict[str, int] | None:
        is_long = not isinstance(value, bytes) or len(value) > _SHOWN_LETTERS
        return {"length": len(value)} if is_long else None

    report = inspect_tokenizer(spec)
    return {
        "vocab_size": report.vocab_size,
        "counts": report.counts,
        "special_ids": report.special_ids,
        "longest": [{"id": i, "token": _text(piece)} for i, piece in report.longest],
        "spec": encode(spec, brief=True, keep=keep),
    }


def _stages(stage: str, component: object) -> list[Stage]:
    if component is None:
        return [Stage(stage, "none", ())]
    steps = getattr(component, "steps", None)
    if isinstance(steps, tuple):
        inner = [row for step in steps for row in _stages(stage, step)]
        name = type(component).__name__
        return inner if name == "Sequence" else [Stage(stage, name, ()), *inner]
    return [Stage(stage, type(component).__name__, tuple(_settings(component)))]


def _settings(component: object) -> list[tuple[str, str]]:
    """Return the fields that differ from their defaults."""
    assert isinstance(component, Record)
    settings = []
    for name in fields(component):
        value = getattr(component, name)
        if name in type(component).__dict__ and value == type(component).__dict__[name]:
            continue
        settings.append((name, _format_setting(value)))
    return settings


def _format_setting(value: object) -> str:
    if isinstance(value, Slot):
        return (
            "AB"[value.text] if value.text is not None else value.name or _format_setting(value.ids)
        )
    if isinstance(value, Merges):
        return str(len(value))
    if isinstance(value, Record):
        inside = _settings(value)
        if len(inside) == 1:
            return inside[0][1]
        return ", ".join(f"{name} {text}" for name, text in inside)
    if isinstance(value, bytes):
        return f"{len(value)} bytes" if len(value) > _SHOWN_LETTERS else _text(value)
    if isinstance(value, str):
        return value if value.strip() == value and value else f"'{value}'"
    if isinstance(value, tuple):
        return " ".join(map(_format_setting, value))
    if hasattr(value, "__len__"):
        return f"{len(value)}"
    return str(value)


def _role_counts(spec: TokenizerSpec) -> dict[str, int]:
    from collections import Counter

    vocabulary = spec.vocabulary
    counts: dict[str, int] = {}
    if vocabulary.types is None:
        counts["normal"] = len(vocabulary)
    else:
        names = {int(kind): kind.name.lower() for kind in TokenType}
        for number, count in sorted(Counter(bytes(vocabulary.types.data)).items()):
            name = names.get(number, "undefined")
            counts[name] = counts.get(name, 0) + count
    tokens = spec.added_tokens.tokens
    counts["added"] = len(tokens)
    counts["special"] = sum(token.special for token in tokens)
    merges = getattr(spec.model, "merges", None)
    if merges is not None:
        counts["merges"] = len(merges)
    return counts


def _text(piece: bytes) -> str:
    return piece.decode("utf-8", "backslashreplace")
