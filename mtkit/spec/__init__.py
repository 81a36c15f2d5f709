"""The neutral tokenizer specification that every format reads into and writes from.

A specification says what a tokenizer does and never which file it came from. Where references
differ on "the same" component, the difference is a named field of that component. Every stage is
a closed union of frozen records, one module a stage: normalizers, pre_tokenizers, models,
post_processors, decoders.

``components_of`` and ``user_defined_pieces`` walk over one; ``differing_fields`` says where two are
not equal, and ``model_name`` what people call a model.
"""

from __future__ import annotations

from mtkit.base.record import Record, fields, replace
from mtkit.spec.vocabulary import AddedToken, AddedTokens, SpecialIds, TokenType, Vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any, Literal

    from mtkit.spec.decoders import Decoder
    from mtkit.spec.models import Model
    from mtkit.spec.normalizers import Normalizer
    from mtkit.spec.post_processors import PostProcessor
    from mtkit.spec.pre_tokenizers import PreTokenizer


__all__ = [
    "AddedToken",
    "AddedTokens",
    "ChatTemplate",
    "Padding",
    "Record",
    "SpecialIds",
    "TokenType",
    "TokenizerSpec",
    "Truncation",
    "Vocabulary",
    "fields",
    "replace",
]


class Truncation(Record):
    """How a file asks long inputs to be cut; applied only on request.

    Attributes:
        max_length: Tokens, special ones included.
        stride: Tokens that neighboring overflow parts share.
    """

    max_length: int
    stride: int = 0
    strategy: Literal["longest_first", "only_first", "only_second"] = "longest_first"
    direction: Literal["left", "right"] = "right"


class Padding(Record):
    """How a file asks short inputs to be filled; applied only on request.

    Attributes:
        length: Fixed length in tokens, or None for the longest of the batch.
        pad_to_multiple_of: Round the length up to a multiple of this.
    """

    pad_id: int
    pad_token: str
    pad_type_id: int = 0
    length: int | None = None
    pad_to_multiple_of: int | None = None
    direction: Literal["left", "right"] = "right"


class ChatTemplate(Record):
    """A Jinja chat template; the unnamed one is called "default"."""

    name: str
    text: str


class TokenizerSpec(Record, hidden=("name",)):
    """A whole tokenizer.

    Attributes:
        vocabulary: The model's vocabulary.
        model: How a word becomes ids.
        normalizer: None: text stays as it is.
        pre_tokenizer: None: the whole text is one word.
        post_processor: None: nothing is added.
        decoder: None: tokens are joined by ``join``.
        added_tokens: Tokens found before the model.
        special_ids: Ids of special tokens: BOS, EOS and so on.
        truncation: The file's settings, or None if it has none.
        padding: The file's settings, or None if it has none.
        chat_templates: In the file's order.
        invalid_utf8: Handling of bytes that are not valid UTF-8. ``error``: raise; ``replace``:
            U+FFFD for each byte; ``keep``: unchanged; ``loose``: like ``replace``, but overlong
            forms and surrogates count as characters, and forms above U+10FFFF are an error;
            ``wide``: like ``loose``, but forms above U+10FFFF are kept.
        clean_up_spaces: Spaces before punctuation that decoding finally removes. ``none``: no
            spaces; ``full``: before ``. ? ! , ' n't 'm 's 've 're``; ``contractions``: only before
            ``' n't 'm 's 've 're``; ``three_passes``: like ``full``, but not before ``n't``;
            ``on_request``: none, although the file asks for it, because its library leaves this to
            the caller.
        join: Separator between tokens if there is no decoder.
        prefix_ids: Ids before every result, even of the empty text and even where no special
            tokens are requested; the post-processor treats them as part of the text.
        extras: Settings that only one format has: (name, value) with JSON values, kept for
            writing that format again.
        name: The tokenizer's name; ignored when comparing.
    """

    vocabulary: Vocabulary
    model: Model
    normalizer: Normalizer | None = None
    pre_tokenizer: PreTokenizer | None = None
    post_processor: PostProcessor | None = None
    decoder: Decoder | None = None
    added_tokens: AddedTokens = AddedTokens()
    special_ids: SpecialIds = SpecialIds()
    truncation: Truncation | None = None
    padding: Padding | None = None
    chat_templates: tuple[ChatTemplate, ...] = ()
    invalid_utf8: Literal["error", "replace", "keep", "loose", "wide"] = "error"
    clean_up_spaces: Literal["none", "on_request", "full", "contractions", "three_passes"] = "none"
    join: str = " "
    prefix_ids: tuple[int, ...] = ()
    extras: tuple[tuple[str, object], ...] = ()
    name: str = ""

    @property
    def vocab_size(self) -> int:
        """Number of ids: the highest id of vocabulary and added tokens, plus one."""
        added = max((token.id for token in self.added_tokens.tokens), default=-1)
        return max(len(self.vocabulary), added + 1)


def components_of(component: Any) -> Iterator[Any]:
    """Yield the components of a stage in order, those of a ``Sequence`` in its place."""
    if component is None:
        return
    if type(component).__name__ != "Sequence":
        yield component
        return
    for step in component.steps:
        yield from components_of(step)


def user_defined_pieces(spec: TokenizerSpec) -> tuple[bytes, ...]:
    """Return the user-defined pieces of the vocabulary."""
    pieces = spec.vocabulary.pieces
    return tuple(pieces[number] for number in spec.vocabulary.of_type(TokenType.USER_DEFINED))


def differing_fields(
    left: TokenizerSpec, right: TokenizerSpec, paths: Collection[str]
) -> tuple[str, ...]:
    """Return the fields that differ and are none of ``paths``, dotted; the name does not count.

    ``model.merges`` names that field of the model alone, and the whole model where the two are of
    different classes: then there is no field to tell apart.
    """
    return tuple(_differing(left, right, "", paths))


def _differing(left: object, right: object, path: str, paths: Collection[str]) -> Iterator[str]:
    if path in paths or left == right:
        return
    inside = path + "." if path else ""
    if type(left) is type(right) and isinstance(left, Record):
        for name in fields(left):
            if inside or name != "name":
                values = getattr(left, name), getattr(right, name)
                yield from _differing(*values, inside + name, paths)
    elif not any(name.startswith(inside) for name in paths):
        yield path


_MODEL_NAMES = {
    "BPE": "BPE by merges",
    "LooseBPE": "BPE by pairs",
    "RankBPE": "BPE by rank",
    "ScoreBPE": "BPE by score",
    "SectionBPE": "BPE with sections",
    "LatticeUnigram": "Unigram over bytes",
    "Characters": "single characters",
    "Words": "whole words",
    "Trie": "greedy longest match",
    "ShortestPath": "PLaMo-2's shortest path",
}
"""Record of a model -> its name, where people call it otherwise."""


def model_name(model: Model) -> str:
    """Return what people call a model, such as "BPE by score"."""
    name = type(model).__name__
    return _MODEL_NAMES.get(name, name)
