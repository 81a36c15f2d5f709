"""The form in which ``tokenizers`` writes each component: specification to JSON values.

``residue`` is the other half of reading: what a file says in another form than this one is kept
as it stands, so that writing gives it back.

Source: huggingface/tokenizers 0.23, the ``Serialize`` of each component.
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.formats.hf.numbers import piece_text
from mtkit.spec import decoders as de
from mtkit.spec import normalizers as no
from mtkit.spec import post_processors as po
from mtkit.spec import pre_tokenizers as pr
from mtkit.spec.models import BPE, Unigram, WordLevel, WordPiece
from mtkit.spec.text import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.base.record import Record
    from mtkit.spec import AddedToken, Padding, TokenizerSpec, Truncation
    from mtkit.spec.text import Pattern

    Form = Callable[[Any], dict[str, Any]]


def _pattern(pattern: Pattern) -> dict[str, str]:
    if isinstance(pattern, Text):
        return {"String": pattern.text}
    return {"Regex": pattern.pattern}


def _behavior(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _charsmap(charsmap: bytes) -> str:
    from base64 import b64encode

    return b64encode(charsmap).decode("ascii")


def _steps(kind: str, key: str) -> Form:
    return lambda c: {"type": kind, key: [component_form(step) for step in c.steps]}


def _metaspace(c: pr.Metaspace | de.Metaspace) -> dict[str, Any]:
    return {
        "type": "Metaspace",
        "replacement": c.replacement,
        "prepend_scheme": c.prepend_scheme,
        "split": c.split,
    }


def _replace(c: no.Replace | de.Replace) -> dict[str, Any]:
    return {"type": "Replace", "pattern": _pattern(c.pattern), "content": c.content}


def _byte_level(c: pr.ByteLevel | po.ByteLevel) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": c.add_prefix_space,
        "trim_offsets": c.trim_offsets,
        "use_regex": c.use_regex,
    }


def _template(c: po.Template) -> dict[str, Any]:
    special: dict[str, Any] = {}

    def slots(places: tuple[po.Slot, ...]) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for slot in places:
            if slot.text is not None:
                letter = "B" if slot.text else "A"
                made.append({"Sequence": {"id": letter, "type_id": slot.type_id}})
                continue
            name = slot.name or "+".join(map(str, slot.ids))
            entry = {"id": name, "ids": list(slot.ids), "tokens": [name] * len(slot.ids)}
            while special.setdefault(name, entry)["ids"] != entry["ids"]:
                name += "'"  # another slot has this name for other ids
            made.append({"SpecialToken": {"id": name, "type_id": slot.type_id}})
        return made

    single, pair = slots(c.single), slots(c.pair)
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": dict(sorted(special.items())),
    }


def _roberta(c: po.Roberta) -> dict[str, Any]:
    return {
        "type": "RobertaProcessing",
        "sep": list(c.sep),
        "cls": list(c.cls),
        "trim_offsets": c.trim_offsets,
        "add_prefix_space": c.add_prefix_space,
    }


def _named(kind: str) -> Form:
    return lambda _: {"type": kind}


FORMS: dict[type[Record], Form] = {
    no.UnicodeForm: lambda c: {"type": c.form},
    no.Bert: lambda c: {
        "type": "BertNormalizer",
        "clean_text": c.clean_text,
        "handle_chinese_chars": c.handle_chinese_chars,
        "strip_accents": c.strip_accents,
        "lowercase": c.lowercase,
    },
    no.Lowercase: _named("Lowercase"),
    no.Strip: lambda c: {"type": "Strip", "strip_left": c.left, "strip_right": c.right},
    no.StripAccents: _named("StripAccents"),
    no.Prepend: lambda c: {"type": "Prepend", "prepend": c.text},
    no.Replace: _replace,
    no.Precompiled: lambda c: {
        "type": "Precompiled",
        "precompiled_charsmap": _charsmap(c.charsmap),
    },
    no.Nmt: _named("Nmt"),
    no.ByteLevel: _named("ByteLevel"),
    no.Sequence: _steps("Sequence", "normalizers"),
    pr.ByteLevel: _byte_level,
    pr.Metaspace: _metaspace,
    pr.Bert: _named("BertPreTokenizer"),
    pr.Split: lambda c: {
        "type": "Split",
        "pattern": _pattern(c.pattern),
        "behavior": _behavior(c.behavior),
        "invert": c.invert,
    },
    pr.Punctuation: lambda c: {"type": "Punctuation", "behavior": _behavior(c.behavior)},
    pr.Digits: lambda c: {"type": "Digits", "individual_digits": c.individual},
    pr.Whitespace: _named("Whitespace"),
    pr.WhitespaceSplit: _named("WhitespaceSplit"),
    pr.CharDelimiterSplit: lambda c: {"type": "CharDelimiterSplit", "delimiter": c.delimiter},
    pr.UnicodeScripts: _named("UnicodeScripts"),
    pr.FixedLength: lambda c: {"type": "FixedLength", "length": c.length},
    pr.Sequence: _steps("Sequence", "pretokenizers"),
    po.Template: _template,
    po.Bert: lambda c: {"type": "BertProcessing", "sep": list(c.sep), "cls": list(c.cls)},
    po.Roberta: _roberta,
    po.ByteLevel: _byte_level,
    po.Sequence: _steps("Sequence", "processors"),
    de.ByteLevel: lambda _: _byte_level(pr.ByteLevel()),
    de.Metaspace: _metaspace,
    de.WordPiece: lambda c: {"type": "WordPiece", "prefix": c.prefix, "cleanup": c.cleanup},
    de.ByteFallback: _named("ByteFallback"),
    de.Fuse: _named("Fuse"),
    de.Replace: _replace,
    de.Strip: lambda c: {
        "type": "Strip",
        "content": c.content,
        "start": c.start,
        "stop": c.stop,
    },
    de.BPE: lambda c: {"type": "BPEDecoder", "suffix": c.suffix},
    de.CTC: lambda c: {
        "type": "CTC",
        "pad_token": c.pad_token,
        "word_delimiter_token": c.word_delimiter_token,
        "cleanup": c.cleanup,
    },
    de.Sequence: _steps("Sequence", "decoders"),
}
"""Every component that the library has; those of other references are not here."""


def component_form(component: Record | None) -> dict[str, Any] | None:
    """Return a component as JSON.

    Raises:
        UnsupportedError: The library has no such component.
    """
    if component is None:
        return None
    if type(component) not in FORMS:
        name = type(component).__name__
        raise UnsupportedError(f"tokenizer.json has no component for {name}")
    return FORMS[type(component)](component)


def added_token_form(token: AddedToken) -> dict[str, Any]:
    """Return an added token as JSON."""
    return {
        "id": token.id,
        "content": token.content.decode("utf-8"),
        "single_word": token.single_word,
        "lstrip": token.lstrip,
        "rstrip": token.rstrip,
        "normalized": token.normalized,
        "special": token.special,
    }


def truncation_form(truncation: Truncation | None) -> dict[str, Any] | None:
    """Return the truncation section as JSON."""
    if truncation is None:
        return None
    return {
        "direction": truncation.direction.capitalize(),
        "max_length": truncation.max_length,
        "strategy": _behavior(truncation.strategy),
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
    raise UnsupportedError(f"tokenizer.json has no model for {type(model).__name__}")


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
        "added_tokens": [added_token_form(token) for token in spec.added_tokens.tokens],
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
