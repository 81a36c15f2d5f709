"""What a written file does not hold, found by reading it back: fields that come back otherwise.

A writer lists by hand what it leaves out while it writes; the rest (roles, templates, flags that
only describe) is the difference between the specification and what the reader makes of the file. A
table of the format says what a difference in a field means; the one here says it for the fields
that mean the same everywhere.
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
    """Code and effect of the loss; or what yields the losses, from what is written and its copy."""

EFFECTS: Mapping[str, Rule] = {
    "vocabulary": ("metadata", "types, scores and unused entries of tokens"),
    "post_processor": ("metadata", "what is added around a text"),
    "decoder": ("decoding", "ids are decoded as the format's own reader does"),
    "added_tokens": ("ids-special", "which special tokens are found in the text, and how"),
    "special_ids": ("metadata", "which tokens are bos, eos, unk, pad and the like"),
    "truncation": ("metadata", "how the file asks long inputs to be cut"),
    "padding": ("metadata", "how the file asks short inputs to be filled"),
    "chat_templates": ("chat", "the chat template"),
    "invalid_utf8": ("ids-special", "bytes that are not valid UTF-8"),
    "clean_up_spaces": ("decoding", "which spaces decoding removes"),
    "join": ("decoding", "what stands between decoded tokens"),
    "extras": ("metadata", "what only the source's format has is not kept"),
}
OTHER: Rule = ("ids", "the format does not hold it")


def with_remainder(
    spec: TokenizerSpec,
    back: TokenizerSpec,
    listed: Iterable[Loss] = (),
    rules: Mapping[str, Rule] = EFFECTS,
) -> tuple[Loss, ...]:
    """Return the listed losses, and those of each other field that comes back otherwise.

    Args:
        spec: What is written.
        back: What the reader makes of it.
        listed: Losses found so far.
        rules: Field -> what it means that it differs, where the format says it more exactly.
    """
    losses = list(listed)
    named = {loss.field.split(".")[0] for loss in losses}
    for name in fields(spec):
        if name == "name" or name in named or getattr(spec, name) == getattr(back, name):
            continue
        rule = rules.get(name) or EFFECTS.get(name, OTHER)
        losses += [Loss(rule[0], name, rule[1])] if isinstance(rule, tuple) else rule(spec, back)
    if spec.vocabulary.also and spec.vocabulary.also != back.vocabulary.also:
        losses.append(other_spellings(spec))
    if _decoded(spec) != _decoded(back) and not any(loss.code == "decoding" for loss in losses):
        effect = "added tokens are decoded as another normalizer leaves them"
        losses.append(Loss("decoding", "normalizer", effect))
    return tuple(losses)


def other_spellings(spec: TokenizerSpec) -> Loss:
    """Return the loss of a format with one spelling for each id."""
    also = spec.vocabulary.also
    first = also[0].piece.decode("utf-8", "backslashreplace")
    more = f" and {len(also) - 1} more" if also[1:] else ""
    effect = f"{first!r}{more}, the second spelling of a token, is no token any more"
    return Loss("ids", "vocabulary.also", effect)


def _decoded(spec: TokenizerSpec) -> dict[int, str]:
    """Return what added tokens decode to that are not decoded as they are spelled, by id."""
    tokens = [token for token in spec.added_tokens.tokens if token.normalized]
    if not tokens or spec.normalizer is None:
        return {}
    from mtkit.pipeline.added_tokens import Cutter
    from mtkit.pipeline.normalizers.components import compile_normalizer

    found = Cutter(AddedTokens(tuple(tokens)), compile_normalizer(spec.normalizer, ())).normalized
    spelled = {token.id: token.content.decode("utf-8", "surrogateescape") for token in tokens}
    return {number: text for number, text in found.items() if text != spelled[number]}
