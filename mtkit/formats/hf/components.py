"""Components and sections of a tokenizer.json, read and written by one table: kind, record, fields.

A component is an object with ``type`` and its fields. Where ``type`` is missing or unknown in its
stage, the library tries some kinds in a fixed order and takes the first whose fields are there; it
does so for every post-processor, of which only ByteLevel and Sequence look at ``type`` at all.

Sections are written as ``tokenizers`` writes them. What a file has in another form is its
``residue``, which is kept in the extras so that it is written back.

Source: huggingface/tokenizers 0.23, normalizers/mod.rs, pre_tokenizers/mod.rs, processors/mod.rs,
decoders/mod.rs (``Deserialize``), the file of each component (processors/template.rs,
pre_tokenizers/metaspace.rs …), and the ``Serialize`` of each section.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.hf.numbers import piece_text
from mtkit.formats.json_fields import U32, U64, Fields, format_value
from mtkit.formats.tokenizer_config import token_form
from mtkit.spec import decoders as de
from mtkit.spec import model_name
from mtkit.spec import normalizers as no
from mtkit.spec import post_processors as po
from mtkit.spec import pre_tokenizers as pr
from mtkit.spec.models import BPE, Unigram, WordLevel, WordPiece
from mtkit.spec.post_processors import Slot
from mtkit.spec.text import Regex, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.spec import Padding, TokenizerSpec, Truncation
    from mtkit.spec.post_processors import Template
    from mtkit.spec.pre_tokenizers import Behavior
    from mtkit.spec.text import Pattern


def read_pattern(at: Fields, key: str) -> Pattern:
    """Read ``{"String": text}`` or ``{"Regex": expression}`` (Oniguruma's rules)."""
    value = at.object(key)
    if len(value.values) == 1:
        if "String" in value:
            return Text(value.string("String"))
        if "Regex" in value:
            return Regex(value.string("Regex"))
    raise FormatError("is not one of {String: …}, {Regex: …}", field=value.where)


def pattern_form(pattern: Pattern) -> dict[str, str]:
    """Return a pattern as JSON."""
    if isinstance(pattern, Text):
        return {"String": pattern.text}
    return {"Regex": pattern.pattern}


def read_charsmap(at: Fields, key: str) -> bytes:
    """Read a character map."""
    from base64 import b64decode

    try:
        return b64decode(at.string(key), validate=True)
    except ValueError as error:
        raise FormatError(f"is not valid base64: {error}", field=at.path(key)) from None


def charsmap_form(charsmap: bytes) -> str:
    """Return a character map as JSON."""
    from base64 import b64encode

    return b64encode(charsmap).decode("ascii")


def read_scheme(at: Fields, key: str) -> str:
    """Read ``prepend_scheme``; ``add_prefix_space`` is its older spelling."""
    scheme: str = at.choice(key, {name: name for name in ("always", "first", "never")}, "always")
    if at.optional_boolean("add_prefix_space") is False and scheme != "never":
        what = "is false, which contradicts prepend_scheme"
        raise FormatError(what, field=at.path("add_prefix_space"))
    return scheme


def read_token(at: Fields, key: str) -> tuple[str, int]:
    """Read a token and its id."""
    value = at.items(key)
    if len(value) == 2 and type(value[0]) is str and type(value[1]) is int and 0 <= value[1] <= U32:
        return value[0], value[1]
    raise FormatError("is not a token and its id", field=at.path(key))


def read_slots(at: Fields, key: str) -> tuple[Slot, ...]:
    """Read a template; equal slots are read once and share a record."""
    special = at.object("special_tokens")
    slots: dict[str, Slot] = {}
    texts = []
    for i, item in enumerate(at.items(key)):
        text = repr(item)
        if text not in slots:
            slots[text] = _slot(Fields(item, f"{at.path(key)}[{i}]"), special)
        texts.append(text)
    return tuple(slots[text] for text in texts)


def _slot(place: Fields, special: Fields) -> Slot:
    if len(place.values) != 1 or not ("Sequence" in place or "SpecialToken" in place):
        raise FormatError("is neither a Sequence nor a SpecialToken", field=place.where)
    kind = next(iter(place.values))
    inner = place.object(kind)
    type_id = inner.integer("type_id")
    if kind == "Sequence":
        text = inner.choice("id", {"A": 0, "B": 1})
        return Slot(text=text, type_id=type_id)
    name = inner.string("id")
    if name not in special:
        what = f"has no {format_value(name)}, but a template uses it"
        raise FormatError(what, field=special.where)
    return Slot(ids=_ids(special.object(name)), type_id=type_id, name=name)


def _ids(token: Fields) -> tuple[int, ...]:
    ids = token.items("ids")
    if not all(type(number) is int and 0 <= number <= U32 for number in ids):
        raise FormatError("are not all ids", field=token.path("ids"))
    if not all(type(name) is str for name in token.items("tokens")):
        raise FormatError("are not all strings", field=token.path("tokens"))
    return tuple(ids)


def template_form(c: Template) -> dict[str, Any]:
    """Return a template as JSON."""
    special: dict[str, Any] = {}

    def form(slot: Slot) -> dict[str, Any]:
        if slot.text is not None:
            letter = "B" if slot.text else "A"
            return {"Sequence": {"id": letter, "type_id": slot.type_id}}
        name = slot.name or "+".join(map(str, slot.ids))
        entry = {"id": name, "ids": list(slot.ids), "tokens": [name] * len(slot.ids)}
        while special.setdefault(name, entry)["ids"] != entry["ids"]:
            name += "'"  # another slot has this name for other ids
        return {"SpecialToken": {"id": name, "type_id": slot.type_id}}

    places = (*c.single, *c.pair)
    forms = {address: form(slot) for address, slot in {id(slot): slot for slot in places}.items()}
    single, pair = ([forms[id(slot)] for slot in slots] for slots in (c.single, c.pair))
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": dict(sorted(special.items())),
    }


class Field(Record):
    """A field of a component.

    Attributes:
        needed: Whether a component without a type must have it.
    """

    key: str
    name: str
    read: Callable[[Fields, str], Any]
    write: Callable[[Any], Any]
    needed: bool


class Kind(Record):
    """A component: its ``type``, its record, its fields in the order of the file."""

    name: str
    make: Callable[..., Any]
    fields: tuple[Field, ...] = ()

    def read(self, at: Fields) -> Any:
        """Return the component as a record."""
        return self.make(**{field.name: field.read(at, field.key) for field in self.fields})

    def form(self, component: Any) -> dict[str, Any]:
        """Return a component as JSON."""
        values = {f.key: f.write(getattr(component, f.name)) for f in self.fields}
        return {"type": self.name, **values}


def _field(
    read: Callable[[Fields, str], Any],
    write: Callable[[Any], Any] = lambda value: value,
    *,
    needed: bool = True,
) -> Callable[..., Field]:
    return lambda key, name="": Field(key, name or key, read, write, needed)


def _steps(stage: str) -> Callable[..., Field]:
    def read(at: Fields, key: str) -> tuple[Any, ...]:
        path = at.path(key)
        return tuple(
            read_component(item, f"{path}[{place}]", stage)
            for place, item in enumerate(at.items(key))
        )

    return _field(read, lambda steps: [component_form(step) for step in steps])


def capitals(name: str) -> str:
    """Spell a name of ours as the library does: ``only_first`` is ``OnlyFirst``."""
    return "".join(part.capitalize() for part in name.split("_"))


_BEHAVIORS: dict[str, Behavior] = {
    "Removed": "removed",
    "Isolated": "isolated",
    "MergedWithPrevious": "merged_with_previous",
    "MergedWithNext": "merged_with_next",
    "Contiguous": "contiguous",
}
_flag, _string, _character = (
    _field(Fields.boolean),
    _field(Fields.string),
    _field(Fields.character),
)
_flag_or_none = _field(Fields.optional_boolean, needed=False)
_count = _field(lambda at, key: at.integer(key, most=U64))
_pattern = _field(read_pattern, pattern_form)
_behavior = _field(lambda at, key: at.choice(key, _BEHAVIORS), capitals)
_token = _field(read_token, list)

_METASPACE = (
    _character("replacement"),
    _field(read_scheme)("prepend_scheme"),
    _field(lambda at, key: at.optional_boolean(key) is not False)("split"),
)
_BYTE_LEVEL = (
    _flag("add_prefix_space"),
    _flag("trim_offsets"),
    _field(lambda at, key: at.boolean(key, default=True))("use_regex"),
)
_REPLACE = (_pattern("pattern"), _string("content"))
_FORMS = ("NFC", "NFD", "NFKC", "NFKD")

NORMALIZERS = (
    Kind(
        "BertNormalizer",
        no.Bert,
        (
            _flag("clean_text"),
            _flag("handle_chinese_chars"),
            _flag_or_none("strip_accents"),
            _flag("lowercase"),
        ),
    ),
    Kind("Strip", no.Strip, (_flag("strip_left", "left"), _flag("strip_right", "right"))),
    Kind("StripAccents", no.StripAccents),
    *(Kind(form, lambda form=form: no.UnicodeForm(form)) for form in _FORMS),
    Kind("Sequence", no.Sequence, (_steps("normalizer")("normalizers", "steps"),)),
    Kind("Lowercase", no.Lowercase),
    Kind("Nmt", no.Nmt),
    Kind(
        "Precompiled",
        no.Precompiled,
        (_field(read_charsmap, charsmap_form)("precompiled_charsmap", "charsmap"),),
    ),
    Kind("Replace", no.Replace, _REPLACE),
    Kind("Prepend", no.Prepend, (_string("prepend", "text"),)),
    Kind("ByteLevel", no.ByteLevel),
)
PRE_TOKENIZERS = (
    Kind("BertPreTokenizer", pr.Bert),
    Kind("ByteLevel", pr.ByteLevel, _BYTE_LEVEL),
    Kind("CharDelimiterSplit", pr.CharDelimiterSplit, (_character("delimiter"),)),
    Kind("Metaspace", pr.Metaspace, _METASPACE),
    Kind("Whitespace", pr.Whitespace),
    Kind("Sequence", pr.Sequence, (_steps("pre_tokenizer")("pretokenizers", "steps"),)),
    Kind("Split", pr.Split, (_pattern("pattern"), _behavior("behavior"), _flag("invert"))),
    Kind(
        "Punctuation",
        pr.Punctuation,
        (_field(lambda at, key: at.choice(key, _BEHAVIORS, "isolated"), capitals)("behavior"),),
    ),
    Kind("WhitespaceSplit", pr.WhitespaceSplit),
    Kind("Digits", pr.Digits, (_flag("individual_digits", "individual"),)),
    Kind("UnicodeScripts", pr.UnicodeScripts),
    Kind(
        "FixedLength",
        pr.FixedLength,
        (_field(lambda at, key: at.integer(key, 5, most=U64))("length"),),
    ),
)
_ENDS = (_token("sep"), _token("cls"))
_ROBERTA = Kind(
    "RobertaProcessing", po.Roberta, (*_ENDS, _flag("trim_offsets"), _flag("add_prefix_space"))
)
_BERT = Kind("BertProcessing", po.Bert, _ENDS)
_OFFSETS = Kind("ByteLevel", po.ByteLevel, _BYTE_LEVEL)
_TEMPLATE = Kind(
    "TemplateProcessing", po.Template, (_field(read_slots)("single"), _field(read_slots)("pair"))
)
_PROCESSORS = Kind("Sequence", po.Sequence, (_steps("post_processor")("processors", "steps"),))
DECODERS = (
    Kind("BPEDecoder", de.BPE, (_string("suffix"),)),
    # The switches of the other two components of this name must be there, without effect.
    Kind("ByteLevel", lambda **_: de.ByteLevel(), _BYTE_LEVEL),
    Kind("WordPiece", de.WordPiece, (_string("prefix"), _flag("cleanup"))),
    Kind("Metaspace", de.Metaspace, _METASPACE),
    Kind("CTC", de.CTC, (_string("pad_token"), _string("word_delimiter_token"), _flag("cleanup"))),
    Kind("Sequence", de.Sequence, (_steps("decoder")("decoders", "steps"),)),
    Kind("Replace", de.Replace, _REPLACE),
    Kind("Fuse", de.Fuse),
    Kind("Strip", de.Strip, (_character("content"), _count("start"), _count("stop"))),
    Kind("ByteFallback", de.ByteFallback),
)

_STAGES: Mapping[str, tuple[dict[str, Kind], tuple[str, ...]]] = {
    "normalizer": (
        # The library's list of names has Bert.
        {kind.name: kind for kind in NORMALIZERS} | {"Bert": NORMALIZERS[0]},
        ("BertNormalizer", "Strip", "Sequence", "Precompiled", "Replace", "Prepend"),
    ),
    "pre_tokenizer": ({kind.name: kind for kind in PRE_TOKENIZERS}, ()),
    "decoder": (
        {kind.name: kind for kind in DECODERS},
        ("BPEDecoder", "WordPiece", "CTC", "Replace", "Strip"),
    ),
}
"""Stage -> its kinds by name, and those that are tried where the type names none."""
_FORMS_OF_RECORDS: dict[object, Callable[[Any], dict[str, Any]]] = {
    kind.make: kind.form
    for kinds in (NORMALIZERS, PRE_TOKENIZERS, (_ROBERTA, _BERT, _OFFSETS, _PROCESSORS), DECODERS)
    for kind in kinds
} | {
    no.UnicodeForm: lambda component: {"type": component.form},
    po.Template: template_form,
    de.ByteLevel: lambda _: _OFFSETS.form(po.ByteLevel()),
}
"""Record -> its form, for every component of the library; other references have others."""


def read_stage(root: Fields, key: str) -> Any:
    """Read ``normalizer``, ``pre_tokenizer``, ``post_processor`` or ``decoder``; None for null."""
    value = root.get(key, None)
    return None if value is None else read_component(value, key, key)


def read_component(value: Any, where: str, stage: str) -> Any:
    """Read a component by its type, or by its fields."""
    at = Fields(value, where)
    name = at.values.get("type")
    if stage == "post_processor":
        kind = _post_processor(at)
    else:
        kinds, untyped = _STAGES[stage]
        kind = kinds.get(name) if type(name) is str else None
        if kind is None:
            kind = next((kinds[name] for name in untyped if _has_fields(at, kinds[name])), None)
    if kind is not None:
        return kind.read(at)
    if type(name) is str:
        what = f"unknown {stage.replace('_', '-')} {format_value(name)}"
        raise UnsupportedError(what, field=at.path("type"))
    at.string("type")
    raise AssertionError


def _has_fields(at: Fields, kind: Kind) -> bool:
    return all(field.key in at for field in kind.fields if field.needed)


def _post_processor(at: Fields) -> Kind | None:
    name = at.values.get("type")
    if "sep" in at and "cls" in at:
        return _ROBERTA if "trim_offsets" in at and "add_prefix_space" in at else _BERT
    if name == "ByteLevel":
        return _OFFSETS
    if "single" in at and "pair" in at and "special_tokens" in at:
        return _TEMPLATE
    if name == "Sequence":
        return _PROCESSORS
    keys = {"RobertaProcessing": "sep", "BertProcessing": "sep", "TemplateProcessing": "single"}
    if type(name) is str and name in keys:
        at.get(keys[name])
        raise FormatError("lacks fields of its type", field=at.where)
    return None


def component_form(component: Record | None) -> dict[str, Any] | None:
    """Return a component as JSON."""
    if component is None:
        return None
    if type(component) not in _FORMS_OF_RECORDS:
        name = type(component).__name__
        raise UnsupportedError(f"tokenizer.json has no component for {name}")
    return _FORMS_OF_RECORDS[type(component)](component)


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
    """Return a model without vocabulary and merges, with a note on the spelling of merges."""
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
    """Return the sections of a file that are not in the form in which they are written."""
    forms = section_forms(spec)
    rest: dict[str, Any] = {}
    for key, value in document.items():
        if key == "model":
            value = small_model_fields(value)
        if key != "version" and (key not in forms or value != forms[key]):
            rest[key] = value
    return rest
