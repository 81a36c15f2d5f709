"""How a specification is put into a GGUF: which model, which names and switches.

Each family of vocabularies has a function that returns a ``Plan`` or says why llama.cpp has nothing
for it. What the plan cannot hold shows when the result is read back (``gguf_losses``).
"""

from __future__ import annotations

from mtkit.base.record import Record, replace
from mtkit.errors import UnsupportedError
from mtkit.formats.gguf.extras import MODELS
from mtkit.formats.gguf.match_pre_tokenizer import name_for
from mtkit.formats.gguf.merges import BYTE_TEXTS, write_merges
from mtkit.formats.gguf.roles import extras_of, family_of, model_of
from mtkit.formats.gguf.scores import scores_of
from mtkit.spec import decoders, models, normalizers, pre_tokenizers
from mtkit.spec.text import Regex, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.spec import TokenizerSpec
    from mtkit.spec.normalizers import Normalizer
    from mtkit.spec.pre_tokenizers import PreTokenizer


class Plan(Record):
    """What is written besides tokens, ids and templates.

    Attributes:
        model: ``tokenizer.ggml.model``.
        pre: ``tokenizer.ggml.pre``; empty where it means nothing.
        flags: Key behind ``tokenizer.ggml.`` -> value.
        merges: Lines of the merge list, or None.
        scores: Score of each token of the vocabulary, or None.
        charsmap: The character map; None for no key.
        known: Stages that stay the same components, run by another reference.
        ends: Whether BOS and EOS can be added; ``always``: they are.
        blanks: Whether the vocabulary has blanks where llama.cpp wants U+2581.
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
    """Decide how a specification is written.

    Raises:
        UnsupportedError: llama.cpp has no tokenizer for it.
    """
    model = spec.model
    if isinstance(model, models.SectionBPE):
        plain = replace(spec, model=model.bpe, pre_tokenizer=model.words)
        return replace(_bpe(plain, model.bpe), model="hybriddna")
    if isinstance(model, models.BPE):
        return _bpe(spec, model)
    if isinstance(model, models.ScoreBPE):
        return _spm(spec, _scores(spec), frozenset({"normalizer", "model"}))
    if isinstance(model, models.Unigram):
        return _ugm(spec)
    if isinstance(model, models.WordPiece):
        return _wpm(spec, model)
    return Plan(MODELS[family_of(spec)], scores=_scores(spec), ends="never")


def _scores(spec: TokenizerSpec) -> list[float] | None:
    return None if spec.vocabulary.scores is None else list(spec.vocabulary.scores)


def _bpe(spec: TokenizerSpec, model: models.BPE) -> Plan:
    if model.dropout or model.continuing_subword_prefix or model.end_of_word_suffix:
        raise UnsupportedError(
            "llama.cpp knows no dropout, prefix or suffix in byte-pair encoding", field="model"
        )
    before, letters = _before_letters(spec.pre_tokenizer)
    wish, kind = str(extras_of(spec).get("pre", "")), model_of(spec)
    merges = write_merges(model.merges, spec.vocabulary)
    if kind == "whitespace":
        low = isinstance(spec.normalizer, normalizers.Lowercase)
        return Plan(kind, wish or "whitespace", (("normalizer.lowercase", low),), merges)
    if letters:
        pre = name_for(
            before,
            ignore_merges=model.ignore_merges,
            clean_spaces=spec.clean_up_spaces != "none",
            wish=wish,
        )
        flag = ("add_space_prefix", _drops_first_space(spec))
        known = frozenset({"pre_tokenizer", "model"})
        return Plan(kind, pre, (flag,) if flag[1] else (), merges, known=known)
    if kind == "gemma4" or wish in {"gemma4", "granite-embed-multi-311m", "sarvam-moe"}:
        return Plan(kind, wish or "gemma4", (), merges)
    if not model.byte_fallback or model.ignore_merges:
        raise UnsupportedError(
            "llama.cpp has byte-pair encoding over the byte alphabet or with byte tokens only",
            field="model",
        )
    return _from_merges(spec, model, merges)


def _from_merges(spec: TokenizerSpec, model: models.BPE, merges: list[bytes]) -> Plan:
    """Write a merge list over U+2581 as scores, or as the one model that has merges there."""
    ids = spec.vocabulary.pieces.ids
    skip = {ids[text] for text in BYTE_TEXTS if text in ids}
    skip |= {token.id for token in spec.added_tokens.tokens}
    scores = scores_of(model.merges, spec.vocabulary, frozenset(skip))
    known = frozenset({"normalizer", "pre_tokenizer", "model"})
    if scores is not None:
        return _spm(spec, scores, known)
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
    return Plan("gemma4", "gemma4", (), merges, known=known)


def _spm(spec: TokenizerSpec, scores: list[float] | None, known: frozenset[str]) -> Plan:
    ids = spec.vocabulary.pieces.ids
    if not any(text in ids for text in BYTE_TEXTS):
        raise UnsupportedError(
            "without byte tokens llama.cpp cannot encode unknown characters", field="vocabulary"
        )
    prefix = _prefixed(spec)
    blanks = not any(_marks(step) for step in _steps(spec.normalizer)) and not any(
        isinstance(cut, pre_tokenizers.Metaspace) for cut in _cuts(spec.pre_tokenizer)
    )
    flags = (("add_space_prefix", prefix),)
    return Plan("llama", flags=flags, scores=scores, known=known, blanks=blanks)


def _ugm(spec: TokenizerSpec) -> Plan:
    charsmap = b""
    squeeze = False
    for step in _steps(spec.normalizer):
        if isinstance(step, (normalizers.Precompiled, normalizers.Spaces)):
            charsmap = step.charsmap
        if isinstance(step, normalizers.Spaces):
            squeeze = step.remove_extra_whitespaces
        squeeze = squeeze or isinstance(step, normalizers.Strip) or _joins_spaces(step)
    for cut in _cuts(spec.pre_tokenizer):
        squeeze = squeeze or isinstance(cut, pre_tokenizers.WhitespaceSplit)
    prefix = _drops_first_space(spec) if _pieces(spec) else _prefixed(spec)
    return Plan(
        "t5",
        flags=(("add_space_prefix", prefix), ("remove_extra_whitespaces", squeeze)),
        scores=_scores(spec),
        charsmap=charsmap or None,
        known=frozenset({"normalizer", "pre_tokenizer", "model"}),
    )


def _marks(step: Normalizer) -> bool:
    """Tell a step that writes U+2581 for a space."""
    if isinstance(step, normalizers.Spaces):
        return step.escape_whitespaces
    return isinstance(step, normalizers.Replace) and step.pattern == Text(" ")


def _joins_spaces(step: Normalizer) -> bool:
    """Tell a step that writes one space or mark for several."""
    return (
        isinstance(step, normalizers.Replace)
        and isinstance(step.pattern, Regex)
        and step.pattern.pattern in {" {2,}", r"\s+", r"\s{2,}"}
    )


def _wpm(spec: TokenizerSpec, model: models.WordPiece) -> Plan:
    found = spec.normalizer
    if not isinstance(found, normalizers.Bert) or not isinstance(
        spec.pre_tokenizer, pre_tokenizers.Bert
    ):
        raise UnsupportedError(
            "llama.cpp has WordPiece with BERT's clean-up and words only", field="pre_tokenizer"
        )
    if model.prefix != "##" or not found.clean_text or not found.handle_chinese_chars:
        raise UnsupportedError(
            "llama.cpp has BERT's ## and its whole clean-up only", field="model.prefix"
        )
    accents = found.lowercase if found.strip_accents is None else found.strip_accents
    return Plan(
        "bert",
        flags=(
            ("normalizer.lowercase", found.lowercase),
            ("normalizer.strip_accents", accents),
        ),
        known=frozenset({"normalizer", "pre_tokenizer", "model"}),
        ends="always",
    )


def _steps(found: Normalizer | None) -> Iterator[Normalizer]:
    if isinstance(found, normalizers.Sequence):
        for step in found.steps:
            yield from _steps(step)
    elif found is not None:
        yield found


def _cuts(found: PreTokenizer | None) -> Iterator[PreTokenizer]:
    if isinstance(found, pre_tokenizers.Sequence):
        for step in found.steps:
            yield from _cuts(step)
    elif found is not None:
        yield found


def _before_letters(found: PreTokenizer | None) -> tuple[PreTokenizer | None, bool]:
    """Return the steps, and whether words are spelled in the byte alphabet."""
    return found, any(isinstance(cut, pre_tokenizers.ByteLevel) for cut in _cuts(found))


def _pieces(spec: TokenizerSpec) -> bool:
    return isinstance(spec.decoder, decoders.Pieces)


def _drops_first_space(spec: TokenizerSpec) -> bool:
    return isinstance(spec.decoder, decoders.Pieces) and spec.decoder.drop_first_space


def _prefixed(spec: TokenizerSpec) -> bool:
    """Tell whether texts get a space in front."""
    return any(
        isinstance(step, normalizers.Prepend)
        or (isinstance(step, normalizers.Spaces) and step.add_dummy_prefix)
        for step in _steps(spec.normalizer)
    ) or any(
        isinstance(cut, pre_tokenizers.Metaspace) and cut.prepend_scheme != "never"
        for cut in _cuts(spec.pre_tokenizer)
    )
