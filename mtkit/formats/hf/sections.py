"""The sections of a tokenizer.json as ``tokenizers`` writes them: specification to JSON values.

``residue`` is the other half of reading: what a file says in another form than this one is kept
as it stands, so that writing gives it back.

Source: huggingface/tokenizers 0.23, the ``Serialize`` of each section.
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.formats.added_tokens import token_form
from mtkit.formats.hf.components import capitals, component_form
from mtkit.formats.hf.numbers import piece_text
from mtkit.spec.model_names import model_name
from mtkit.spec.models import BPE, Unigram, WordLevel, WordPiece

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.spec import Padding, TokenizerSpec, Truncation


def truncation_form(truncation: Truncation | None) -> dict[str, Any] | None:
    """Return the truncation section as JSON."""
    if truncation is None:
        return None
    return {
        "direction": truncation.direction.capitalize(),
        "max_length": truncation.max_length,
        "strategy": capitals(truncation.strategy),
        "stride": truncation.stride,
    }


def padding_form(padding: Padding | None) -> dict[str, Any] | None:
    """Return the padding section as JSON."""
    if padding is None:
        return None
    fixed = padding.length is not None
    return {
        "strategy": {"Fixed": padding.length} if fixed else "BatchLongest",
        "direction": padding.direction.capitalize(),
        "pad_to_multiple_of": padding.pad_to_multiple_of,
        "pad_id": padding.pad_id,
        "pad_type_id": padding.pad_type_id,
        "pad_token": padding.pad_token,
    }


def model_form(spec: TokenizerSpec) -> dict[str, Any]:
    """Return the small fields of the model as JSON, without vocabulary and merges."""
    model = spec.model

    def token(number: int | None) -> str | None:
        return None if number is None else piece_text(spec.vocabulary.pieces[number])

    if isinstance(model, BPE):
        return {
            "type": "BPE",
            "dropout": model.dropout,
            "unk_token": "[UNK]" if model.without_unk == "error" else token(model.unk),
            "continuing_subword_prefix": model.continuing_subword_prefix or None,
            "end_of_word_suffix": model.end_of_word_suffix or None,
            "fuse_unk": model.fuse_unk,
            "byte_fallback": model.byte_fallback,
            "ignore_merges": model.ignore_merges,
        }
    if isinstance(model, WordPiece):
        return {
            "type": "WordPiece",
            "unk_token": token(model.unk) or "[UNK]",
            "continuing_subword_prefix": model.prefix,
            "max_input_chars_per_word": model.max_chars,
        }
    if isinstance(model, WordLevel):
        return {"type": "WordLevel", "unk_token": token(model.unk) or "<unk>"}
    if isinstance(model, Unigram):
        return {"type": "Unigram", "unk_id": model.unk, "byte_fallback": model.byte_fallback}
    raise UnsupportedError(f"tokenizer.json does not support {model_name(model)}")


def small_model_fields(model: dict[str, Any]) -> dict[str, Any]:
    """Take vocabulary and merges out of a model, leaving a word about how merges are spelled."""
    small = {key: value for key, value in model.items() if key not in ("vocab", "merges")}
    merges = model.get("merges")
    if merges and type(merges) is list and type(merges[0]) is str:
        small["merges"] = "text"
    return small


def section_forms(spec: TokenizerSpec) -> dict[str, Any]:
    """Return every section but version, vocabulary and merges as JSON, in the library's order."""
    return {
        "truncation": truncation_form(spec.truncation),
        "padding": padding_form(spec.padding),
        "added_tokens": [
            {"id": token.id, **token_form(token)} for token in spec.added_tokens.tokens
        ],
        "normalizer": component_form(spec.normalizer),
        "pre_tokenizer": component_form(spec.pre_tokenizer),
        "post_processor": component_form(spec.post_processor),
        "decoder": component_form(spec.decoder),
        "model": model_form(spec),
    }


def residue(document: dict[str, Any], spec: TokenizerSpec) -> dict[str, Any]:
    """Return the sections of a file that differ from the form its specification is written in."""
    forms = section_forms(spec)
    rest: dict[str, Any] = {}
    for key, value in document.items():
        if key == "model":
            value = small_model_fields(value)
        if key != "version" and (key not in forms or value != forms[key]):
            rest[key] = value
    return rest
