"""Components of a tokenizer.json, read and written by one table: kind, record, fields.

Each is an object with ``type`` and its fields. Where ``type`` is missing or no name of the stage's
list, the library tries some kinds in a fixed order and takes the first whose fields are there; it
does so for every post-processor, of which only ByteLevel and Sequence look at ``type`` at all.

Source: huggingface/tokenizers 0.23, normalizers/mod.rs, pre_tokenizers/mod.rs, processors/mod.rs,
decoders/mod.rs (``Deserialize``), and the fields of each component's own file.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.hf.values import (
    charsmap_form,
    pattern_form,
    read_charsmap,
    read_pattern,
    read_scheme,
    read_slots,
    read_token,
    template_form,
)
from mtkit.formats.json_fields import U64, Fields, shown
from mtkit.spec import decoders as de
from mtkit.spec import normalizers as no
from mtkit.spec import post_processors as po
from mtkit.spec import pre_tokenizers as pr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.spec.pre_tokenizers import Behavior


class Field(Record):
    """A field of a component.

    Attributes:
        key: Its name in the file.
        name: Its name in the record.
        read: Returns the value of a key.
        write: Returns it as JSON.
        needed: Whether a component without a type is told by it.
    """

    key: str
    name: str
    read: Callable[[Fields, str], Any]
    write: Callable[[Any], Any]
    needed: bool


class Kind(Record):
    """A component: its ``type``, what makes its record, its fields in the order of the file."""

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
    # The switches of the other two kinds of this name must be there and mean nothing.
    Kind("ByteLevel", lambda **_: de.ByteLevel(), _BYTE_LEVEL),
    Kind("WordPiece", de.WordPiece, (_string("prefix"), _flag("cleanup"))),
    Kind("Metaspace", de.Metaspace, _METASPACE),
    Kind(
        "CTC",
        de.CTC,
        (_string("pad_token"), _string("word_delimiter_token"), _flag("cleanup")),
    ),
    Kind("Sequence", de.Sequence, (_steps("decoder")("decoders", "steps"),)),
    Kind("Replace", de.Replace, _REPLACE),
    Kind("Fuse", de.Fuse),
    Kind("Strip", de.Strip, (_character("content"), _count("start"), _count("stop"))),
    Kind("ByteFallback", de.ByteFallback),
)

_STAGES: Mapping[str, tuple[dict[str, Kind], tuple[str, ...]]] = {
    "normalizer": (
        # The library's list of names says Bert.
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
_WRITTEN: dict[object, Callable[[Any], dict[str, Any]]] = {
    kind.make: kind.form
    for kinds in (NORMALIZERS, PRE_TOKENIZERS, (_ROBERTA, _BERT, _OFFSETS, _PROCESSORS), DECODERS)
    for kind in kinds
} | {
    no.UnicodeForm: lambda component: {"type": component.form},
    po.Template: template_form,
    de.ByteLevel: lambda _: _OFFSETS.form(po.ByteLevel()),
}
"""Every component that the library has; those of other references are not here."""


def read_stage(root: Fields, key: str) -> Any:
    """Read ``normalizer``, ``pre_tokenizer``, ``post_processor`` or ``decoder``; None for null."""
    value = root.get(key, None)
    return None if value is None else read_component(value, key, key)


def read_component(value: Any, where: str, stage: str) -> Any:
    """Read a component by its type, or by the fields that are there.

    Raises:
        FormatError: A field is missing or has a wrong value.
        UnsupportedError: The library has no component of this name.
    """
    at = Fields(value, where)
    name = at.values.get("type")
    if stage == "post_processor":
        found = _post_processor(at)
    else:
        kinds, untyped = _STAGES[stage]
        found = kinds.get(name) if type(name) is str else None
        tried = (kinds[kind] for kind in untyped)
        there = (kind for kind in tried if all(f.key in at for f in kind.fields if f.needed))
        found = found or next(there, None)
    if found is not None:
        return found.read(at)
    if type(name) is str:
        what = f"unknown {stage.replace('_', '-')} {shown(name)}"
        raise UnsupportedError(what, field=at.path("type"))
    at.string("type")
    raise AssertionError


def _post_processor(at: Fields) -> Kind | None:
    """Tell the kind of a post-processor."""
    name = at.values.get("type")
    if "sep" in at and "cls" in at:
        return _ROBERTA if "trim_offsets" in at and "add_prefix_space" in at else _BERT
    if name == "ByteLevel":
        return _OFFSETS
    if "single" in at and "pair" in at and "special_tokens" in at:
        return _TEMPLATE
    if name == "Sequence":
        return _PROCESSORS
    known = {"RobertaProcessing": "sep", "BertProcessing": "sep", "TemplateProcessing": "single"}
    if type(name) is str and name in known:
        at.get(known[name])
        raise FormatError("lacks fields of its type", field=at.where)
    return None


def component_form(component: Record | None) -> dict[str, Any] | None:
    """Return a component as JSON.

    Raises:
        UnsupportedError: The library has no such component.
    """
    if component is None:
        return None
    if type(component) not in _WRITTEN:
        name = type(component).__name__
        raise UnsupportedError(f"tokenizer.json has no component for {name}")
    return _WRITTEN[type(component)](component)
