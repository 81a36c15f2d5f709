"""Models and components of other references as the nearest ones of tokenizer.json.

A component that the library has but for some switches loses these: the same rules run by another
reference (``ids-possible``). The others are spelled out in components of the library. A model that
merges any neighbors whose union is a token gets a merge list (``ranks.merges_by_cuts``).

Split patterns of other engines are respelled for Oniguruma (Ruby's syntax), where a ``+`` behind
``{1,3}`` repeats instead of making it possessive, so it becomes an atomic group, and ``^`` and
``$`` match at every line, so they become ``\\A`` and ``\\z``.

Source: kkos/oniguruma, doc/RE (ONIG_SYNTAX_RUBY).
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import UnsupportedError
from mtkit.formats.hf.components import component_form, read_component
from mtkit.formats.hf.numbers import piece_text
from mtkit.formats.ranks import merges_by_cuts, merges_by_rank
from mtkit.spec import (
    TokenType,
    decoders,
    model_name,
    models,
    normalizers,
    pre_tokenizers,
    replace,
    user_defined_pieces,
)
from mtkit.spec.normalizers import Spaces
from mtkit.spec.spaces import spell_out_spaces
from mtkit.spec.text import MARK, Regex, Text
from mtkit.spec.vocabulary import SEGMENTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

    from mtkit.base.record import Record
    from mtkit.formats.contract import AddLoss, LossCode
    from mtkit.spec import TokenizerSpec, Vocabulary
    from mtkit.spec.models import Model


def oniguruma_pattern(pattern: str, *, anchors: bool) -> str:
    """Respell a pattern; with ``anchors``, ``^`` and ``$`` are the ends of the text."""
    parts: list[str] = []
    groups: list[int] = []
    atom = 0  # index in parts of the last atom
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "(":
            groups.append(len(parts))
            parts.append(char)
            at += 1
        elif char == ")":
            atom = groups.pop() if groups else len(parts)
            parts.append(char)
            at += 1
        elif char == "{" and (end := _count_end(pattern, at)):
            count, follows = pattern[at:end], pattern[end : end + 1]
            if follows == "+":
                parts[atom:] = ["(?>", *parts[atom:], count, ")"]
                end += 1
            elif follows == "?" and "," not in count:
                raise UnsupportedError(f"the pattern has {count}?, which is not a lazy count here")
            else:
                parts.append(count)
            at = end
        elif char in "*+?":
            parts.append(char)
            at += 1
        else:
            end = _atom_end(pattern, at)
            atom = len(parts)
            text = pattern[at:end]
            parts.append({"^": r"\A", "$": r"\z"}.get(text, text) if anchors else text)
            at = end
    return "".join(parts)


def _count_end(pattern: str, at: int) -> int:
    """Return the end of a count, 0 where the brace begins none."""
    end = pattern.find("}", at)
    inside = pattern[at + 1 : end]
    return end + 1 if end > 0 and inside.strip("0123456789") in {"", ","} and inside else 0


def _atom_end(pattern: str, at: int) -> int:
    """Return the end of the character, escape or class that begins here."""
    if pattern[at] == "\\":
        if pattern[at + 1 : at + 2] in {"p", "P", "x", "u"} and pattern[at + 2 : at + 3] == "{":
            return pattern.find("}", at) + 1 or len(pattern)
        size = {"x": 4, "u": 6}.get(pattern[at + 1 : at + 2], 2)
        return min(at + size, len(pattern))
    if pattern[at] != "[":
        return at + 1
    depth, place = 0, at
    while place < len(pattern):
        if pattern[place] == "\\":
            place += 1
        elif pattern[place] == "[":
            depth += 1
            place += pattern[place + 1 : place + 2] == "^"
            place += pattern[place + 1 : place + 2] == "]"  # a bracket in first place is itself
        elif pattern[place] == "]":
            depth -= 1
            if not depth:
                return place + 1
        place += 1
    return len(pattern)


def literal_pattern(text: str) -> str:
    """Return an expression that matches a text and nothing else."""
    return "".join(c if c.isalnum() or not c.isascii() or c == " " else f"\\{c}" for c in text)


NO_LIMIT = (1 << 31) - 1
"""A word length without limit."""


def adapt_model(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    """Return the model of the library's kinds."""
    model = spec.model
    if type(model) not in _MODELS:
        raise UnsupportedError(f"tokenizer.json does not support {model_name(model)}")
    return _MODELS[type(model)](spec, vocabulary, add)


def _bpe(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    model = spec.model
    assert isinstance(model, models.BPE)
    adapted = replace(model, missing="before", whole_newlines=False)
    if adapted != model:
        add("ids-possible", "model", "unknown characters are handled before merging")
    sound = _sound_merges(
        model.merges.pairs, vocabulary, len(model.continuing_subword_prefix.encode())
    )
    if sound is not None or len(model.merges.unlisted):
        add("ids-possible", "model.merges", "merges that produce no token are left out")
        pairs = model.merges.pairs if sound is None else sound  # none may be left
        adapted = replace(adapted, merges=models.Merges(pairs, Pieces.of([])))
    return adapted


def _sound_merges(pairs: Numbers, vocabulary: Vocabulary, cut: int) -> Numbers | None:
    """Return the merges of tokens that make a token; None when all do."""
    pieces = list(vocabulary.pieces)
    tokens = {*pieces, *(other.piece for other in vocabulary.also)}
    size = len(pieces)
    sound: list[int] = []
    for left, right in pairs.pairs():
        are_tokens = left < size and right < size and pieces[left] and pieces[right]
        if are_tokens and pieces[left] + pieces[right][cut:] in tokens:
            sound += (left, right)
    return None if len(sound) == len(pairs) else Numbers.of("I", sound)


def _score_bpe(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    """Return a model with the merges of every token that merging may make, best score first."""
    model = spec.model
    assert isinstance(model, models.ScoreBPE)
    scores = spec.vocabulary.scores
    if scores is None:
        raise UnsupportedError("the vocabulary has no scores to order merges by")
    kinds = spec.vocabulary.all_types()
    usable = {
        piece: number
        for number, piece in enumerate(vocabulary.pieces)
        if piece and kinds[number] in SEGMENTED
    }
    effect = "scores become a list of merges, so ties can be decided differently"
    add("ids-possible", "model", effect)
    if TokenType.UNUSED in kinds:
        add("ids", "model", "unused tokens are not split again")
    values = scores.view.tolist()
    results = [
        n for n in usable.values() if model.score_above is None or values[n] > model.score_above
    ]
    results.sort(key=lambda number: -values[number])
    return models.BPE(
        merges_by_cuts(results, usable),
        unk=model.unk,
        fuse_unk=True,
        byte_fallback=model.byte_fallback,
        ignore_merges=_keeps_whole_words(spec),
    )


def _characters(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    """Return a model without merges: a character is a token or unknown."""
    model = spec.model
    assert isinstance(model, models.Characters)
    add("ids-possible", "model", "characters are looked up by a model without merges")
    return models.BPE(
        models.Merges(Numbers.of("I", []), Pieces.of([])),
        unk=model.unk,
        fuse_unk=True,
        byte_fallback=model.byte_fallback,
        ignore_merges=_keeps_whole_words(spec),
    )


def _words(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    """Return a model that looks words up; ``adapt_pre_tokenizer`` cuts the text into words."""
    model = spec.model
    assert isinstance(model, models.Words)
    if model.byte_fallback:
        raise UnsupportedError("tokenizer.json has no model of words that spells unknown ones")
    add("ids", "model", "consecutive unknown words are not joined into one unknown token")
    return models.WordLevel(model.unk)


def _keeps_whole_words(spec: TokenizerSpec) -> bool:
    return keeps_user_defined(spec, by_splitting=True) and bool(user_defined(spec))


def user_defined(spec: TokenizerSpec) -> list[str]:
    """Return the texts of the user-defined pieces, longest first."""
    texts = [piece_text(piece) for piece in user_defined_pieces(spec) if piece]
    return sorted(texts, key=len, reverse=True)


def keeps_user_defined(spec: TokenizerSpec, *, by_splitting: bool = False) -> bool:
    """Tell whether user-defined pieces stay with the model instead of being added tokens.

    The library normalizes the text between added tokens piece by piece: each piece would get a
    prefix and lose the spaces at its ends. A Unigram model finds them by their score; for the
    others (``by_splitting``) a pattern cuts them out of the normalized text.
    """
    spaces = spec.normalizer
    if spec.added_tokens.tokens or not isinstance(spaces, Spaces):
        return False
    if isinstance(spec.model, models.Unigram):
        return not by_splitting
    if not isinstance(spec.model, (models.ScoreBPE, models.Characters)):
        return False
    return spaces.add_dummy_prefix or spaces.remove_extra_whitespaces


def unigram_scores(spec: TokenizerSpec) -> Numbers | None:
    """Return the scores, with the effective ones of user-defined pieces."""
    vocabulary, model = spec.vocabulary, spec.model
    if vocabulary.scores is None or vocabulary.types is None:
        return vocabulary.scores
    if not isinstance(model, models.Unigram) or model.user_defined == "score":
        return vocabulary.scores
    kinds = vocabulary.types.view.tolist()
    scores = vocabulary.scores.view.tolist()
    normal = [s for s, kind in zip(scores, kinds, strict=True) if kind == TokenType.NORMAL]
    best = max((2.0**-126, *normal))
    for number, kind in enumerate(kinds):
        if kind == TokenType.USER_DEFINED:
            preferred = len(vocabulary.pieces[number]) * best - 0.1
            scores[number] = preferred if model.user_defined == "preferred" else 0.0
    return vocabulary.scores if scores == list(vocabulary.scores) else Numbers.of("d", scores)


def _rank_bpe(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    """Return a model with the merges of every token, lowest id first."""
    effect = "merges follow a list, so overlapping words can be cut differently"
    add("ids-possible", "model", effect)
    special = {token.id for token in spec.added_tokens.tokens}
    return models.BPE(merges_by_rank(vocabulary, special), ignore_merges=True)


def _loose_bpe(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    model = spec.model
    assert isinstance(model, models.LooseBPE)
    effect = "merges that produce no token are left out, and equal ranks follow each other"
    add("ids-possible", "model", effect)
    sound = _sound_merges(model.pairs, vocabulary, 0)
    pairs = model.pairs if sound is None else sound  # none may be left
    return models.BPE(models.Merges(pairs, Pieces.of([])), byte_fallback=True)


def _unigram(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    model = spec.model
    assert isinstance(model, (models.Unigram, models.LatticeUnigram))
    adapted = models.Unigram(unk=model.unk, byte_fallback=model.byte_fallback)
    if adapted != model:
        effect = "scores are added in double precision, so near ties can be decided differently"
        add("ids-possible", "model", effect)
        types = spec.vocabulary.types
        if types is not None and TokenType.UNUSED in types.view.tolist():
            add("ids", "model", "unused tokens can be produced")
    if vocabulary.scores is None:
        raise UnsupportedError("the vocabulary has no scores")
    return adapted


def _word_piece(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    model = spec.model
    assert isinstance(model, models.WordPiece)
    most = NO_LIMIT if model.max_chars is None else model.max_chars
    unk = model.unk
    if unk is not None and not 0 <= unk < len(vocabulary):
        unk = None
        add("ids", "model.unk", "unknown words get no token")
    adapted = models.WordPiece(unk, model.prefix, most)
    if adapted != replace(model, unk=unk):
        add("ids-possible", "model", "the maximum word length counts characters")
    return adapted


def _word_level(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    return spec.model


_MODELS: dict[type, Callable[[TokenizerSpec, Vocabulary, AddLoss], Model]] = {
    models.BPE: _bpe,
    models.ScoreBPE: _score_bpe,
    models.RankBPE: _rank_bpe,
    models.Characters: _characters,
    models.Words: _words,
    models.LooseBPE: _loose_bpe,
    models.Unigram: _unigram,
    models.LatticeUnigram: _unigram,
    models.WordPiece: _word_piece,
    models.WordLevel: _word_level,
}


def nearest_component(component: Any, key: str, add: AddLoss) -> Any:
    """Return the component as the library has it; a difference is a loss."""
    if component is None:
        return None
    nearest = read_component(component_form(component), key, key)
    if nearest != component:
        code: LossCode = "decoding" if key == "decoder" else "ids-possible"
        changes = "text" if key == "decoder" else "ids"
        add(code, key, f"the tokenizers library has its own code for this: {changes} can differ")
    return nearest


def _spell_out(component: Any, lower: Callable[[Any], tuple[Record, ...]], sequence: Any) -> Any:
    """Spell out the parts of a component; sequences in it are flattened only where needed."""
    if isinstance(component, sequence):
        steps: list[Any] = []
        for step in component.steps:
            part = _spell_out(step, lower, sequence)
            spread = isinstance(part, sequence) and not isinstance(step, sequence)
            steps.extend(part.steps if spread else [part])
        return sequence(tuple(steps))
    parts = lower(component)
    return parts[0] if len(parts) == 1 else sequence(tuple(parts))


def _split_pattern(pattern: Any, key: str, add: AddLoss) -> Any:
    """Respell an expression of another engine for Oniguruma."""
    if isinstance(pattern, Text) or pattern == Regex(pattern.pattern):
        return pattern
    add("ids-possible", key, "the split pattern runs in a different regex engine")
    text = pattern.pattern
    if pattern.counted == "modified" or pattern.anchors == "text":
        text = oniguruma_pattern(text, anchors=pattern.anchors == "text")
    return Regex(text)


def adapt_normalizer(spec: TokenizerSpec, add: AddLoss) -> Any:
    """Return the normalizer of the library's components."""
    if spec.normalizer is None:
        return None

    def lower(component: Any) -> tuple[Record, ...]:
        if isinstance(component, normalizers.Replace):
            return (
                replace(component, pattern=_split_pattern(component.pattern, "normalizer", add)),
            )
        if isinstance(component, normalizers.Spaces):
            return _space_steps(component, add)
        if isinstance(component, normalizers.BertTable):
            add("ids-possible", "normalizer", "accents and case follow Unicode's own tables")
            return (
                normalizers.Bert(
                    clean_text=component.clean_text,
                    handle_chinese_chars=component.handle_chinese_chars,
                    strip_accents=component.strip_accents,
                    lowercase=component.lowercase,
                ),
            )
        return (component,)

    normalizer = _spell_out(spec.normalizer, lower, normalizers.Sequence)
    return nearest_component(normalizer, "normalizer", add)


def _space_steps(spaces: normalizers.Spaces, add: AddLoss) -> tuple[Record, ...]:
    """Spell out the rules of a trained subword model for white space."""
    effect = "spaces next to added tokens are handled differently, and U+2581 counts as a space"
    add("ids-special", "normalizer", effect)
    if spaces.charsmap:
        effect = "normalization works on whole graphemes, so rare character sequences can differ"
        add("ids-possible", "normalizer", effect)
    return spell_out_spaces(spaces)


def adapt_pre_tokenizer(spec: TokenizerSpec, add: AddLoss) -> Any:
    """Return the pre-tokenizer of the library's components."""
    if spec.pre_tokenizer is None:
        if isinstance(spec.model, models.Words):
            effect = "splitting into words becomes a separate component; no text changes"
            add("metadata", "pre_tokenizer", effect)
            return pre_tokenizers.Split(Text(MARK), "merged_with_next")
        whole = user_defined(spec) if keeps_user_defined(spec, by_splitting=True) else []
        if not whole:
            return None
        add("ids-possible", "pre_tokenizer", "user-defined tokens are cut out by a pattern")
        return pre_tokenizers.Split(Regex("|".join(map(literal_pattern, whole))))

    def lower(component: Any) -> tuple[Record, ...]:
        if isinstance(component, pre_tokenizers.MarkSpaces):
            add("ids-possible", "pre_tokenizer", "an empty text gets no leading mark")
            scheme: Literal["always", "never"] = "always" if component.prefix else "never"
            return (pre_tokenizers.Metaspace(component.replacement, scheme, split=False),)
        if isinstance(component, pre_tokenizers.DigitGroups):
            raise UnsupportedError("tokenizer.json has no component that groups digits from behind")
        if isinstance(component, pre_tokenizers.Split) and component.behavior.startswith("glued"):
            raise UnsupportedError(f"tokenizer.json cannot split by {component.behavior}")
        if isinstance(component, pre_tokenizers.Split):
            return (
                replace(component, pattern=_split_pattern(component.pattern, "pre_tokenizer", add)),
            )
        return (component,)

    pre_tokenizer = _spell_out(spec.pre_tokenizer, lower, pre_tokenizers.Sequence)
    return nearest_component(pre_tokenizer, "pre_tokenizer", add)


def adapt_decoder(spec: TokenizerSpec, add: AddLoss) -> Any:
    """Return the decoder of the library's components."""
    decoder = spec.decoder
    if decoder is None:
        return None

    def lower(component: Any) -> tuple[Record, ...]:
        steps = _decoder_steps(component)
        if steps is None:
            return (component,)
        effect = "the library decodes unknown, special and byte tokens in its own way"
        add("decoding", "decoder", effect)
        return steps

    return nearest_component(_spell_out(decoder, lower, decoders.Sequence), "decoder", add)


def _decoder_steps(component: Any) -> tuple[Record, ...] | None:
    """Spell out a decoder of another reference; None for one that the library has."""
    marks = (decoders.Replace(Text(MARK), " "), decoders.ByteFallback(), decoders.Fuse())
    strip = decoders.Strip(" ", start=1)
    if isinstance(component, decoders.Subwords):
        return marks if component.drop_marks == "none" else (*marks, strip)
    if isinstance(component, decoders.AfterBos):
        return (*marks, strip)
    if isinstance(component, decoders.Bytewise):
        return component.steps
    if isinstance(component, decoders.Pieces):
        steps_of_spellings: dict[str, tuple[Record, ...]] = {
            "marks": (*marks, strip) if component.drop_first_space else marks,
            "byte_alphabet": (decoders.ByteLevel(),),
            "words": (decoders.WordPiece(cleanup=False),),
            "plain": (decoders.ByteFallback(), decoders.Fuse()),
        }
        return steps_of_spellings.get(component.spelling)
    return None
