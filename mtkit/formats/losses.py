"""Losses of a written file, found by reading it back: fields that do not come back.

A writer lists some losses while it writes; the rest (roles, templates, flags that only describe) is
the difference between the specification and that of the written file. A table of the format says
what a difference in a field means; ``EFFECTS`` says it for fields that mean the same everywhere.
"""

from __future__ import annotations

from mtkit.base.record import fields
from mtkit.formats.contract import Loss
from mtkit.spec import AddedTokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Union

    from mtkit.formats.contract import LossCode
    from mtkit.spec import TokenizerSpec

    Rule = Union[tuple[LossCode, str], Callable[[TokenizerSpec, TokenizerSpec], Iterable[Loss]]]

    """Code and effect of the loss; or a function of both specifications that yields the losses."""


EFFECTS: Mapping[str, Rule] = {
    "vocabulary": ("metadata", "types, scores and unused entries of the vocabulary are not kept"),
    "post_processor": (
        "metadata",
        "the rule for tokens added around a text (BOS, EOS …) is not kept",
    ),
    "decoder": (
        "decoding",
        "spaces and special tokens in decoded text can differ: the format has its own rules",
    ),
    "added_tokens": ("ids-special", "special tokens in a text can be recognized differently"),
    "special_ids": (
        "metadata",
        "the file does not say which tokens are BOS, EOS, UNK, PAD and so on",
    ),
    "truncation": ("metadata", "the setting that truncates long texts is not kept"),
    "padding": ("metadata", "the setting that pads short texts is not kept"),
    "chat_templates": ("chat", "the chat template is not kept"),
    "invalid_utf8": ("ids-special", "bytes that are not valid UTF-8 are treated differently"),
    "clean_up_spaces": ("decoding", "decoding can keep or drop other spaces"),
    "join": ("decoding", "decoding puts something else between tokens"),
    "extras": ("metadata", "settings that only the source format has are not kept"),
}
_OTHER_EFFECT: Rule = ("ids", "the format cannot hold this, so ids can change")


def losses_between(
    spec: TokenizerSpec,
    back: TokenizerSpec,
    listed: Iterable[Loss] = (),
    rules: Mapping[str, Rule] = EFFECTS,
) -> tuple[Loss, ...]:
    """Return the listed losses, and those of each other field that does not come back.

    Args:
        rules: Field -> its loss, where the format says it more exactly than ``EFFECTS``.
    """
    losses = list(listed)
    fields_of_losses = {loss.field.split(".")[0] for loss in losses}
    for name in fields(spec):
        if name == "name" or name in fields_of_losses or getattr(spec, name) == getattr(back, name):
            continue
        rule = rules.get(name) or EFFECTS.get(name, _OTHER_EFFECT)
        losses += [Loss(rule[0], name, rule[1])] if isinstance(rule, tuple) else rule(spec, back)
    if spec.vocabulary.also and spec.vocabulary.also != back.vocabulary.also:
        losses.append(other_spellings(spec))
    if _added_texts(spec) != _added_texts(back) and not any(
        loss.code == "decoding" for loss in losses
    ):
        effect = "added tokens are decoded as the new normalizer writes them"
        losses.append(Loss("decoding", "normalizer", effect))
    return tuple(losses)


def other_spellings(spec: TokenizerSpec) -> Loss:
    """Return the loss of a format with one spelling for each id."""
    also = spec.vocabulary.also
    first = also[0].piece.decode("utf-8", "backslashreplace")
    more = f" and {len(also) - 1} more" if also[1:] else ""
    effect = f"{first!r}{more}, the second spelling of a token, is no token any more"
    return Loss("ids", "vocabulary.also", effect)


def _added_texts(spec: TokenizerSpec) -> dict[int, str]:
    """Return id -> decoded text of the added tokens that do not decode to their content."""
    tokens = [token for token in spec.added_tokens.tokens if token.normalized]
    if not tokens or spec.normalizer is None:
        return {}
    from mtkit.pipeline.added_tokens import Cutter
    from mtkit.pipeline.normalizers import compile_normalizer

    texts = Cutter(AddedTokens(tuple(tokens)), compile_normalizer(spec.normalizer, ())).normalized
    contents = {token.id: token.content.decode("utf-8", "surrogateescape") for token in tokens}
    return {number: text for number, text in texts.items() if text != contents[number]}
