"""A tokenizer as a page shows it: columns by id, what they add up to, merges, stages."""

from __future__ import annotations

from collections import Counter

from mtkit.base.escape import as_text, escape, visible
from mtkit.report.scripts import script_of
from mtkit.spec import TokenType, models
from mtkit.spec.vocabulary import SEGMENTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mtkit.report.columns import Columns
    from mtkit.spec import TokenizerSpec
    from mtkit.tokenizer.tokenizer import Tokenizer

_LONG = 24
"""Longer tokens are one column of the picture."""


def tokens(tokenizer: Tokenizer, columns: Columns) -> dict[str, Any]:
    """Return what a page shows of a tokenizer; its columns are kept among the others."""
    from mtkit.formats import get_format
    from mtkit.inspection.tokenizer import report

    spec, found = tokenizer.spec, report(tokenizer.spec)
    ids = range(spec.vocab_size)
    raw = [tokenizer.token_bytes(i) for i in ids]
    kinds = [tokenizer.token_kind(i) for i in ids]
    texts = [visible(text) for text in raw]
    spelled = _spelled(spec)
    scripts = [
        script_of(text) if kind in _TEXT else kind for text, kind in zip(raw, kinds, strict=True)
    ]
    scores = spec.vocabulary.scores
    beyond = [float("nan")] * (len(ids) - len(spec.vocabulary))
    return {
        "format": tokenizer.format_name,
        "title": get_format(tokenizer.format_name).TITLE,
        "count": len(ids),
        "assumptions": tokenizer.assumptions,
        "warnings": tokenizer.warnings,
        "stages": [
            [stage.stage, stage.name, stage.settings]
            for stage in found.stages
        ],
        "counts": list(found.counts.items()),
        "special": [[name, i, visible(tokenizer.token_bytes(i))] for name, i in
                    found.special_ids.items()],
        "text": columns.texts(texts),
        "spelling": columns.texts(spelled),
        "same_spelling": spelled == texts,
        "kind": columns.named(kinds),
        "script": columns.named(scripts),
        "bytes": columns.counts(map(len, raw)),
        "score": None if scores is None else columns.floats([*scores, *beyond]),
        "lengths": _lengths(text for text, kind in zip(raw, kinds, strict=True) if kind in _TEXT),
        "scripts": Counter(scripts).most_common(),
        "merges": _merges(spec, columns),
    }  # fmt: skip


_TEXT = {"normal", "user_defined", "added"}
"""Kinds that stand for text; of others the kind says more than their letters."""


def _spelled(spec: TokenizerSpec) -> list[str]:
    """Return how the vocabulary spells each id, then those that only added tokens have."""
    added = {token.id: token.content for token in spec.added_tokens.tokens}
    pieces = [escape(as_text(piece)) for piece in spec.vocabulary.pieces]
    beyond = range(len(pieces), spec.vocab_size)
    return pieces + [escape(as_text(added.get(i, b""))) for i in beyond]


def _lengths(texts: Iterable[bytes]) -> list[list[Any]]:
    """Count the lengths in characters: [length, tokens], long ones together."""
    counts = Counter(min(len(text.decode("utf-8", "replace")), _LONG) for text in texts)
    most = max(counts, default=0)
    return [[f"{n}+" if n == _LONG else str(n), counts[n]] for n in range(1, most + 1)]


def _merges(spec: TokenizerSpec, columns: Columns) -> dict[str, Any] | None:
    """Return what a page needs to run the model on a token; None where no merges make one."""
    model, vocabulary = spec.model, spec.vocabulary
    head: dict[str, Any] = {"size": len(vocabulary), "hidden": list(vocabulary.hidden)}
    if isinstance(model, models.RankBPE):
        return {**head, "kind": "ranks", "before": True}
    if isinstance(model, models.BPE):
        if model.continuing_subword_prefix or model.end_of_word_suffix:
            return None
        by_text = model.missing == "after"
        return {
            "kind": "pairs",
            "size": len(vocabulary),
            "hidden": [] if by_text else head["hidden"],
            "first": by_text,
            "before": not by_text,
            "pairs": columns.numbers(model.merges.pairs),
            "unlisted": columns.texts(escape(as_text(part)) for part in model.merges.unlisted),
        }
    if isinstance(model, models.ScoreBPE):
        types = vocabulary.all_types()
        listed = SEGMENTED if model.mergeable == "listed" else frozenset(TokenType)
        table = bytearray(kind in listed for kind in range(256))
        if model.whole:
            table[TokenType.USER_DEFINED] = 2
        scores = vocabulary.scores
        return {
            **head,
            "kind": "scores",
            "before": model.missing == "before",
            "floor": model.score_above,
            "roles": columns.counts(types.translate(bytes(table))),
            "scores": columns.floats([0.0] * len(vocabulary) if scores is None else scores),
        }
    return None
