"""The losses of a GGUF: how a specification differs after reading it back."""

from __future__ import annotations

from mtkit.formats.contract import Loss, losses_between
from mtkit.formats.gguf.roles import text_ends
from mtkit.spec import (
    TokenType,
    components_of,
    fields,
    models,
    normalizers,
    pre_tokenizers,
)
from mtkit.spec.text import MARK_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.formats.contract import LossCode, LossRule
    from mtkit.formats.gguf.plan import Plan
    from mtkit.spec import TokenizerSpec

_EFFECTS: dict[str, LossRule] = {
    "decoder": (
        "decoding",
        "spaces in decoded text can differ: llama.cpp has its own decoding rules",
    ),
    "added_tokens": (
        "ids-special",
        "special tokens in a text are found by llama.cpp's rules, longest first",
    ),
    "special_ids": (
        "metadata",
        "llama.cpp decides from keys, defaults and names which token is BOS, EOS and so on",
    ),
    "invalid_utf8": (
        "ids-special",
        "text that is not valid UTF-8 is encoded by llama.cpp's own rule",
    ),
    "clean_up_spaces": ("decoding", "decoded text can keep or lose spaces before punctuation"),
}


def losses_of(spec: TokenizerSpec, back: TokenizerSpec, plan: Plan) -> tuple[Loss, ...]:
    """Return the loss of each field that differs."""
    cut: LossCode = "ids-possible" if "pre_tokenizer" in plan.known else "ids"
    rules: dict[str, LossRule] = {
        **_EFFECTS,
        "vocabulary": _vocabulary,
        "normalizer": lambda spec, _: [_normalizer(spec, plan)],
        "pre_tokenizer": lambda spec, _: _pre_tokenizer(spec, plan, cut),
        "model": lambda spec, back: _model(spec, back, plan),
        "post_processor": lambda spec, back: [_post_processor(spec, back)],
    }
    return losses_between(spec, back, rules=rules)


def _pre_tokenizer(spec: TokenizerSpec, plan: Plan, cut: LossCode) -> list[Loss]:
    effect = "text is split by llama.cpp's own code for the same pattern"
    losses = [Loss(cut, "pre_tokenizer", effect)]
    marks = [
        step
        for step in components_of(spec.pre_tokenizer)
        if isinstance(step, pre_tokenizers.Metaspace) and step.prepend_scheme != "never"
    ]
    if marks and dict(plan.flags).get("add_space_prefix") and plan.model == "llama":
        effect = (
            "a text that begins with a blank gets one more: llama.cpp puts a blank before every "
            "text, the source only where there is none"
        )
        losses.append(Loss("ids-blank", "pre_tokenizer", effect))
    return losses


def _vocabulary(spec: TokenizerSpec, back: TokenizerSpec) -> list[Loss]:
    old, new = spec.vocabulary, back.vocabulary
    losses = []
    if old.pieces != new.pieces:
        added = {token.id for token in spec.added_tokens.tokens}
        others = [
            number
            for number, (piece, new_piece) in enumerate(zip(old.pieces, new.pieces, strict=False))
            if piece not in {new_piece, b""}
            and number not in added
            and old.type_of(number) != TokenType.ABSENT
            and piece.replace(b" ", MARK_BYTES) != new_piece
        ]
        if others:
            effect = f"{len(others)} tokens are written differently, the first is {others[0]}"
            losses.append(Loss("ids", "vocabulary.pieces", effect))
        else:
            effect = "added tokens become ordinary vocabulary entries; unused ids get placeholders"
            losses.append(Loss("ids-special", "vocabulary.pieces", effect))
    if old.types != new.types:
        losses.append(
            Loss(
                "metadata",
                "vocabulary.types",
                "token types (control, byte …) are mapped to those of GGUF",
            )
        )
    if old.scores != new.scores:
        effect = (
            "scores are not kept: this kind of vocabulary has none"
            if new.scores is None
            else "scores are made from the order of the merges"
        )
        losses.append(Loss("metadata", "vocabulary.scores", effect))
    return losses


def _normalizer(spec: TokenizerSpec, plan: Plan) -> Loss:
    normalizer = spec.normalizer
    if normalizer == normalizers.Sequence(()):
        effect = "an empty list of normalizers becomes no normalizer; no text changes"
        return Loss("metadata", "normalizer", effect)
    if normalizer == normalizers.UnicodeForm("NFC"):
        effect = "text that is not in NFC, such as decomposed accents, gets different ids"
        return Loss("ids-possible", "normalizer", effect)
    if isinstance(normalizer, normalizers.Spaces) and (
        normalizer.suffix or not normalizer.escape_whitespaces
    ):
        effect = "spaces are marked differently: llama.cpp puts U+2581 before each word"
        return Loss("ids", "normalizer", effect)
    if isinstance(normalizer, normalizers.Spaces) and plan.model == "llama":
        if normalizer.charsmap or normalizer.remove_extra_whitespaces:
            effect = "characters are not normalized and extra spaces are not removed"
            return Loss("ids", "normalizer", effect)
        effect = "a space is also added after each special token"
        return Loss("ids-special", "normalizer", effect)
    if "normalizer" in plan.known and not _lost_forms(normalizer):
        effect = "llama.cpp normalizes text with its own code, which can differ for rare characters"
        return Loss("ids-possible", "normalizer", effect)
    return Loss("ids", "normalizer", "text is not normalized: llama.cpp has no such step")


def _lost_forms(normalizer: object) -> bool:
    """Tell whether there is a step that llama.cpp does not have in any form."""
    if isinstance(normalizer, normalizers.Sequence):
        return any(_lost_forms(step) for step in normalizer.steps)
    return normalizer is not None and not isinstance(
        normalizer,
        (
            normalizers.Bert,
            normalizers.BertTable,
            normalizers.CodePointTable,
            normalizers.Precompiled,
            normalizers.Prepend,
            normalizers.Replace,
            normalizers.Spaces,
            normalizers.Strip,
        ),
    )


def _model(spec: TokenizerSpec, back: TokenizerSpec, plan: Plan) -> list[Loss]:
    old, new = spec.model, back.model
    words: list[Loss] = []
    if isinstance(new, models.BPE) and _whole_words(old) != new.ignore_merges:
        unreachable = _count_unreachable(back, new)
        if unreachable:
            effect = f"{unreachable} tokens that no merge produces are found only as whole words"
            words = [Loss("ids", "model.ignore_merges", effect)]
    if words and type(old) is not type(new):
        return words
    if "model" not in plan.known or type(old) is not type(new):
        code: LossCode = "ids-possible" if "model" in plan.known else "ids"
        return [
            Loss(code, "model", "words are cut into tokens by a different algorithm in llama.cpp")
        ]
    changed = [name for name in fields(old) if getattr(old, name) != getattr(new, name)]
    if isinstance(old, models.Unigram):
        effects = {**_UNIGRAM, "byte_fallback": _FALLBACK[old.byte_fallback]}
        return [Loss(effects[name][0], f"model.{name}", effects[name][1]) for name in changed]
    unused = isinstance(new, models.BPE) and new.missing == "before"
    if words:
        changed.remove("ignore_merges")
    if unused and set(changed) <= {"unk", "fuse_unk"}:
        effect = "the setting is not kept, but never used: every byte has a token"
        return words + [Loss("metadata", f"model.{name}", effect) for name in changed]
    if words:
        return words
    if isinstance(old, models.ScoreBPE) and TokenType.UNUSED not in (spec.vocabulary.types or ()):
        return [
            Loss(
                "ids-special",
                "model",
                "a special token spelled out in plain text can be merged into the token itself",
            )
        ]
    effect = "llama.cpp splits words with its own code, which can give different ids"
    return [Loss("ids-possible", "model", effect)]


def _whole_words(model: object) -> bool:
    """Tell whether a word that is a token is never split."""
    return isinstance(model, models.RankBPE) or getattr(model, "ignore_merges", False)


def _count_unreachable(spec: TokenizerSpec, model: models.BPE) -> int:
    """Count the tokens of several characters that are the result of no merge."""
    pieces = list(spec.vocabulary.pieces)
    size = len(pieces)
    results = {
        pieces[left] + pieces[right]
        for left, right in model.merges.pairs.pairs()
        if left < size and right < size
    }
    normal = [p for i, p in enumerate(pieces) if spec.vocabulary.type_of(i) == TokenType.NORMAL]
    return sum(
        piece not in results and len(piece.decode("utf-8", "replace")) > 1 for piece in normal
    )


_FALLBACK: dict[bool, tuple[LossCode, str]] = {
    True: ("ids", "unknown characters become the unknown token instead of byte tokens"),
    False: ("ids-possible", "unknown characters become byte tokens"),
}
_UNIGRAM: dict[str, tuple[LossCode, str]] = {
    "unk": ("ids-possible", "unknown characters get a different unknown token"),
    "fuse_unk": (
        "ids-possible",
        "a run of unknown characters can become more or fewer unknown tokens",
    ),
    "candidates": (
        "ids-possible",
        "llama.cpp can use unused, control and byte tokens to encode ordinary text",
    ),
    "user_defined": ("ids-possible", "user-defined tokens have a different score"),
    "precision": (
        "ids-possible",
        "scores are added in a different precision, so near ties can be decided differently",
    ),
    "byte_places": ("metadata", "offsets of byte tokens differ"),
}


def _post_processor(spec: TokenizerSpec, back: TokenizerSpec) -> Loss:
    if text_ends(spec) == text_ends(back):
        effect = "rules for text pairs and offsets are not kept; a single text gets the same tokens"
        return Loss("metadata", "post_processor", effect)
    return Loss("ids", "post_processor", "different tokens are added around a text")
