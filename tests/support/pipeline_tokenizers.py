"""Generated tokenizers: post-processors, small models, added tokens, and all of it together.

Everything is drawn from a seed, with the components of ``pipeline_cases``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline_cases import (
    answer,
    draw_decoder,
    draw_normalizer,
    draw_pre_tokenizer,
    letters,
)
from support import reference

if TYPE_CHECKING:
    import random


def draw_post_processor(rng: random.Random, kind: str | None = None) -> Any:
    """Draw a post-processor."""
    p = reference("tokenizers").processors
    kind = kind or rng.choice(POST_PROCESSORS)
    flip = rng.random() < 0.5
    if kind == "Template":
        single = rng.choice(["[CLS] $A [SEP]", "$A:1 [SEP]:2", "[CLS] [CLS] $A", "$A $A [X]:3"])
        pair = rng.choice(["[CLS] $A [SEP] $B:1 [SEP]:1", "$B:2 [X] $A", "[CLS] $A $B:1 $A:4"])
        tokens = [("[CLS]", 1), ("[SEP]", 2), {"id": "[X]", "ids": [4, 5], "tokens": ["x", "y"]}]
        return p.TemplateProcessing(single=single, pair=pair, special_tokens=tokens)
    if kind == "Bert":
        return p.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    if kind == "Roberta":
        return p.RobertaProcessing(
            ("[SEP]", 2), ("[CLS]", 1), trim_offsets=flip, add_prefix_space=rng.random() < 0.5
        )
    if kind == "ByteLevel":
        return p.ByteLevel(trim_offsets=flip, add_prefix_space=rng.random() < 0.5)
    return p.Sequence([draw_post_processor(rng) for _ in range(rng.randint(0, 3))])


POST_PROCESSORS = ["Template", "Bert", "Roberta", "ByteLevel", "Sequence"]

_PIECES = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[X]", "[Y]", "##a", "a", "b", "ab", "\u2581", " "]


def draw_vocabulary(rng: random.Random) -> dict[str, int]:
    """Draw a vocabulary of short pieces, the letters of the byte alphabet and byte tokens in it."""
    pieces = dict.fromkeys(_PIECES)
    for _ in range(rng.randint(10, 60)):
        pieces["".join(letters(rng) for _ in range(rng.randint(1, 3)))] = None
    for _ in range(rng.randint(0, 40)):
        pieces[chr(rng.randrange(0x100, 0x144))] = None
        pieces[f"<0x{rng.randrange(256):02X}>"] = None
    return {piece: number for number, piece in enumerate(pieces)}


def draw_model(rng: random.Random) -> Any:
    """Draw a model over a small vocabulary."""
    m = reference("tokenizers").models
    vocabulary = draw_vocabulary(rng)
    kind = rng.choice(["WordLevel", "WordPiece", "Unigram", "BPE"])
    if kind == "WordLevel":
        return m.WordLevel(vocabulary, unk_token="[UNK]")
    if kind == "WordPiece":
        return m.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=20)
    if kind == "Unigram":
        scored = [(piece, -rng.randint(1, 40) / 4) for piece in vocabulary]
        return m.Unigram(scored, unk_id=0, byte_fallback=rng.random() < 0.5)
    merges = []
    for piece in list(vocabulary):
        for at in range(1, len(piece)):
            if piece[:at] in vocabulary and piece[at:] in vocabulary:
                merges.append((piece[:at], piece[at:]))
    rng.shuffle(merges)
    return m.BPE(
        vocabulary,
        merges,
        unk_token=rng.choice(["[UNK]", None]),
        fuse_unk=rng.random() < 0.5,
        byte_fallback=rng.random() < 0.3,
        ignore_merges=rng.random() < 0.3,
    )


def draw_added_tokens(rng: random.Random) -> list[Any]:
    """Draw added tokens with all their options."""
    make = reference("tokenizers").AddedToken
    contents = ["<s>", "</s>", "[MASK]", "Hello", "world", "  ", "ab", "a", "[CLS]", "don't", "A"]
    contents += [letters(rng), letters(rng) + letters(rng)]
    drawn = []
    for content in rng.sample(contents, rng.randint(0, 5)):
        drawn.append(
            make(
                content,
                single_word=rng.random() < 0.2,
                lstrip=rng.random() < 0.3,
                rstrip=rng.random() < 0.3,
                normalized=rng.random() < 0.4,
                special=rng.random() < 0.5,
            )
        )
    return drawn


def normalized(tokenizer: Any, content: str) -> str:
    """Return a text as the tokenizer's normalizer leaves it, nothing where that fails."""
    if tokenizer.normalizer is None:
        return content
    found: str = answer(tokenizer.normalizer.normalize_str, content)
    return "" if found == "fails" else found


def draw_tokenizer(rng: random.Random, model: Any = None) -> Any:
    """Draw a whole tokenizer around a model, which is drawn where none is given."""
    tokenizers = reference("tokenizers")
    tokenizer = tokenizers.Tokenizer(draw_model(rng) if model is None else model)
    if rng.random() < 0.5:
        tokenizer.normalizer = draw_normalizer(rng)
    if rng.random() < 0.7:
        tokenizer.pre_tokenizer = draw_pre_tokenizer(rng)
    if rng.random() < 0.6:
        tokenizer.post_processor = draw_post_processor(rng)
    if rng.random() < 0.7:
        tokenizer.decoder = draw_decoder(rng)
    # A token that normalizing leaves nothing of makes the library cut everywhere or never end.
    # Of two that are the same once normalized, chance decides which one it finds.
    kept = {}
    for token in draw_added_tokens(rng):
        found_by = normalized(tokenizer, token.content) if token.normalized else token.content
        if found_by:
            kept.setdefault((token.normalized, found_by), token)
    tokenizer.add_tokens(list(kept.values()))
    if rng.random() < 0.3:
        answer(
            tokenizer.enable_truncation,
            rng.randint(8, 14),
            stride=rng.choice([0, 0, 0, 1]),
            strategy=rng.choice(["longest_first", "only_first", "only_second"]),
            direction=rng.choice(["left", "right"]),
        )
    if rng.random() < 0.2:
        tokenizer.enable_padding(
            direction=rng.choice(["left", "right"]),
            pad_id=3,
            pad_type_id=1,
            pad_token="[PAD]",
            length=rng.choice([None, 12]),
            pad_to_multiple_of=rng.choice([None, 4]),
        )
    # As read from its file: a token that is added twice leaves traces of the first in memory.
    return tokenizers.Tokenizer.from_str(tokenizer.to_str())
