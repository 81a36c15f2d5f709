"""How a specification is written to a GGUF: which model, which names and switches.

Each family of vocabularies has a function that returns a ``Plan`` or says what llama.cpp lacks.
What the plan cannot hold shows when the result is read back (``losses``).
"""

from __future__ import annotations

from mtkit.base.record import Record, replace
from mtkit.errors import UnsupportedError
from mtkit.formats.gguf.metadata import MODEL_OF_FAMILY
from mtkit.formats.gguf.pre_tokenizers import NAMES, pre_name_of, rule_of
from mtkit.formats.gguf.roles import extras_of, family_of, model_of, text_ends
from mtkit.formats.gguf.vocabulary import format_merges, scores_of_merges
from mtkit.formats.ranks import merges_by_rank
from mtkit.spec import components_of, decoders, models, normalizers, pre_tokenizers
from mtkit.spec.spaces import MARK_SPACES, drops_first_space, spaces_of
from mtkit.spec.text import Regex
from mtkit.spec.vocabulary import BYTE_TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.spec import TokenizerSpec
    from mtkit.spec.normalizers import Normalizer


_KNOWN_STAGES = frozenset({"normalizer", "pre_tokenizer", "model"})


class Plan(Record):
    """What is written besides tokens, ids and templates.

    Attributes:
        pre: ``tokenizer.ggml.pre``; empty where it has no effect.
        flags: Key behind ``tokenizer.ggml.`` -> value.
        merges: Lines of the merge list, or None.
        scores: Score of each token of the vocabulary, or None.
        charsmap: The character map; None for no key.
        known: Stages that stay the same components, run by another reference.
        ends: Whether BOS and EOS can be added; ``always``: they are.
        blanks: Whether the vocabulary has blanks where llama.cpp needs U+2581.
    """

    model: str
    pre: str = ""
    flags: tuple[tuple[str, bool], ...] = ()
    merges: list[bytes] | None = None
    scores: list[float] | None = None
    charsmap: bytes | None = None
    known: frozenset[str] = frozenset()
    ends: str = "can"
    blanks: bool = False


def plan_of(spec: TokenizerSpec) -> Plan:
    """Decide how a specification is written."""
    family = family_of(spec)
    if type(spec.model) in _PLANS:
        return _PLANS[type(spec.model)](spec, spec.model)
    return Plan(MODEL_OF_FAMILY[family], scores=_scores(spec), ends="never")


def _sections(spec: TokenizerSpec, model: models.SectionBPE) -> Plan:
    plain = replace(spec, model=model.bpe, pre_tokenizer=model.words)
    return replace(_bpe(plain, model.bpe), model="hybriddna")


def _ranks(spec: TokenizerSpec, model: models.RankBPE) -> Plan:
    special = {token.id for token in spec.added_tokens.tokens}
    return _bpe(spec, models.BPE(merges_by_rank(spec.vocabulary, special), ignore_merges=True))


def _scores(spec: TokenizerSpec) -> list[float] | None:
    return None if spec.vocabulary.scores is None else list(spec.vocabulary.scores)


def _bpe(spec: TokenizerSpec, model: models.BPE) -> Plan:
    if model.dropout or model.continuing_subword_prefix or model.end_of_word_suffix:
        what = "llama.cpp knows no dropout, prefix or suffix in byte-pair encoding"
        raise UnsupportedError(what, field="model")
    wish, kind = str(extras_of(spec).get("pre", "")), model_of(spec)
    merges = format_merges(model.merges, spec.vocabulary)
    if any(isinstance(cut, pre_tokenizers.ByteLevel) for cut in components_of(spec.pre_tokenizer)):
        first, _ = text_ends(spec) or ((), ())
        pre = pre_name_of(
            spec.pre_tokenizer,
            ignore_merges=model.ignore_merges,
            clean_spaces=spec.clean_up_spaces != "none",
            bos=bool(first) or spec.special_ids.bos is not None,
            wish=wish,
        )
        flag = ("add_space_prefix", drops_first_space(spec.decoder))
        stages = frozenset({"pre_tokenizer", "model"})
        return Plan(kind, pre, (flag,) if flag[1] else (), merges, known=stages)
    rule = rule_of(spec.pre_tokenizer)
    plain = model.unk is None and not model.ignore_merges
    if kind == "whitespace" or (rule == "whitespace" and plain):
        low = any(
            isinstance(step, normalizers.Lowercase) for step in components_of(spec.normalizer)
        )
        flags = (("normalizer.lowercase", low),)
        return Plan("whitespace", wish or "whitespace", flags, merges, known=_KNOWN_STAGES)
    if kind == "gemma4" or NAMES.get(wish, NAMES["default"]).rule == "gemma4":
        return Plan(kind, wish or "gemma4", (), merges)
    if rule == "gemma4" and spec.normalizer == MARK_SPACES and model.byte_fallback:
        return _lines(spec, merges)
    if not model.byte_fallback or model.ignore_merges:
        what = "llama.cpp has byte-pair encoding over the byte alphabet or with byte tokens only"
        raise UnsupportedError(what, field="model")
    return _from_merges(spec, model, merges)


def _lines(spec: TokenizerSpec, merges: list[bytes]) -> Plan:
    """Plan for text split at line breaks; one of the two models for it always adds BOS."""
    first, _ = text_ends(spec) or ((), ())
    if first:
        return Plan("gemma4", "gemma4", (), merges, known=_KNOWN_STAGES)
    return Plan("gpt2", "sarvam-moe", (), merges, known=_KNOWN_STAGES)


def _from_merges(spec: TokenizerSpec, model: models.BPE, merges: list[bytes]) -> Plan:
    """Plan for merges over U+2581: as scores, or for the only model that has merges there."""
    ids = spec.vocabulary.pieces.ids
    skip = {ids[text] for text in BYTE_TOKENS if text in ids}
    skip |= {token.id for token in spec.added_tokens.tokens}
    scores = scores_of_merges(model.merges, spec.vocabulary, frozenset(skip))
    if scores is not None:
        return _spm(spec, scores, _KNOWN_STAGES)
    if spec.special_ids.bos is None:
        raise UnsupportedError(
            "these merges cannot be written as scores, and llama.cpp's tokenizer with merges puts"
            " a BOS in front of every text, which there is not",
            field="special_ids.bos",
        )
    if _prefixed(spec):
        raise UnsupportedError(
            "these merges cannot be written as scores, and llama.cpp's tokenizer with merges"
            " cannot put U+2581 in front of a text",
            field="model.merges",
        )
    return Plan("gemma4", "gemma4", (), merges, known=_KNOWN_STAGES)


def _spm(spec: TokenizerSpec, scores: list[float] | None, known: frozenset[str]) -> Plan:
    ids = spec.vocabulary.pieces.ids
    if not any(text in ids for text in BYTE_TOKENS):
        what = "without byte tokens llama.cpp cannot encode unknown characters"
        raise UnsupportedError(what, field="vocabulary")
    prefix = _prefixed(spec)
    blanks = not any(_marks(step) for step in components_of(spec.normalizer)) and not any(
        isinstance(cut, pre_tokenizers.Metaspace) for cut in components_of(spec.pre_tokenizer)
    )
    flags = (("add_space_prefix", prefix),)
    return Plan("llama", flags=flags, scores=scores, known=known, blanks=blanks)


def _ugm(spec: TokenizerSpec, model: models.Unigram) -> Plan:
    charsmap = b""
    squeeze = False
    for step in components_of(spec.normalizer):
        if isinstance(step, (normalizers.Precompiled, normalizers.Spaces)):
            charsmap = step.charsmap
        if isinstance(step, normalizers.Spaces):
            squeeze = step.remove_extra_whitespaces
        squeeze = squeeze or isinstance(step, normalizers.Strip) or _joins_spaces(step)
    for cut in components_of(spec.pre_tokenizer):
        squeeze = squeeze or isinstance(cut, pre_tokenizers.WhitespaceSplit)
    # Where spaces are joined, a text gets its mark in any case: the key changes decoding alone.
    by_decoder = squeeze or isinstance(spec.decoder, decoders.Pieces)
    prefix = drops_first_space(spec.decoder) if by_decoder else _prefixed(spec)
    return Plan(
        "t5",
        flags=(("add_space_prefix", prefix), ("remove_extra_whitespaces", squeeze)),
        scores=_scores(spec),
        charsmap=charsmap or None,
        known=_KNOWN_STAGES,
    )


def _marks(step: Normalizer) -> bool:
    """Tell whether a step writes U+2581 for a space."""
    if isinstance(step, normalizers.Spaces):
        return step.escape_whitespaces
    return step == MARK_SPACES


def _joins_spaces(step: Normalizer) -> bool:
    """Tell whether a step writes one space or mark for several."""
    return (
        isinstance(step, normalizers.Replace)
        and isinstance(step.pattern, Regex)
        and step.pattern.pattern in {" {2,}", r"\s+", r"\s{2,}"}
    )


def _wpm(spec: TokenizerSpec, model: models.WordPiece) -> Plan:
    normalizer = spec.normalizer
    if not isinstance(normalizer, normalizers.Bert) or not isinstance(
        spec.pre_tokenizer, pre_tokenizers.Bert
    ):
        what = "llama.cpp has WordPiece with BERT's clean-up and words only"
        raise UnsupportedError(what, field="pre_tokenizer")
    if model.prefix != "##" or not normalizer.clean_text or not normalizer.handle_chinese_chars:
        what = "llama.cpp has BERT's ## and its whole clean-up only"
        raise UnsupportedError(what, field="model.prefix")
    return Plan(
        "bert",
        flags=(
            ("normalizer.lowercase", normalizer.lowercase),
            ("normalizer.strip_accents", normalizer.strips_accents),
        ),
        known=_KNOWN_STAGES,
        ends="always",
    )


def _prefixed(spec: TokenizerSpec) -> bool:
    """Tell whether texts get a space in front."""
    rule = spaces_of(spec.normalizer)
    if rule is not None and rule.add_dummy_prefix and not rule.suffix:
        return True
    return any(
        isinstance(step, normalizers.Prepend) for step in components_of(spec.normalizer)
    ) or any(
        isinstance(cut, pre_tokenizers.Metaspace) and cut.prepend_scheme != "never"
        for cut in components_of(spec.pre_tokenizer)
    )


_PLANS: dict[type, Callable[[TokenizerSpec, Any], Plan]] = {
    models.SectionBPE: _sections,
    models.RankBPE: _ranks,
    models.BPE: _bpe,
    models.ScoreBPE: lambda spec, _: _spm(spec, _scores(spec), frozenset({"normalizer", "model"})),
    models.Unigram: _ugm,
    models.WordPiece: _wpm,
}
