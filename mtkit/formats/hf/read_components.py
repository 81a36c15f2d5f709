"""Components of a tokenizer.json: normalizers, pre-tokenizers, post-processors, decoders.

Each is an object with ``type`` and its fields. Where ``type`` is missing or no name of the stage's
list, the library tries the kinds in a fixed order and takes the first whose fields are there; it
does so for every post-processor, of which only ByteLevel and Sequence look at ``type`` at all.

Source: huggingface/tokenizers 0.23, normalizers/mod.rs, pre_tokenizers/mod.rs, processors/mod.rs,
decoders/mod.rs (``Deserialize``), and the fields of each component's own file.
"""

from __future__ import annotations

from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.json_fields import U32, U64, Fields, shown
from mtkit.spec import decoders, normalizers, post_processors, pre_tokenizers
from mtkit.spec.text import Regex, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.spec.decoders import Decoder
    from mtkit.spec.normalizers import Normalizer
    from mtkit.spec.post_processors import PostProcessor
    from mtkit.spec.pre_tokenizers import Behavior, PreTokenizer
    from mtkit.spec.text import Pattern

    Make = Callable[[Fields], Any]

BEHAVIORS: dict[str, Behavior] = {
    "Removed": "removed",
    "Isolated": "isolated",
    "MergedWithPrevious": "merged_with_previous",
    "MergedWithNext": "merged_with_next",
    "Contiguous": "contiguous",
}
SCHEMES = {"always": "always", "first": "first", "never": "never"}


def read_pattern(at: Fields, key: str = "pattern") -> Pattern:
    """Read ``{"String": text}`` or ``{"Regex": expression}`` (Oniguruma's rules)."""
    value = at.object(key)
    if len(value.values) == 1:
        if "String" in value:
            return Text(value.string("String"))
        if "Regex" in value:
            return Regex(value.string("Regex"))
    raise FormatError("is not one of {String: …}, {Regex: …}", field=value.where)


def _steps(at: Fields, key: str, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
    path = at.path(key)
    return tuple(read(item, f"{path}[{i}]") for i, item in enumerate(at.items(key)))


def _component(
    value: Any,
    where: str,
    kinds: dict[str, Make],
    untyped: tuple[tuple[tuple[str, ...], str], ...],
    stage: str,
) -> Any:
    """Read a component by its type, or by the fields that are there."""
    at = Fields(value, where)
    name = at.values.get("type")
    if type(name) is str and name in kinds:
        return kinds[name](at)
    for keys, kind in untyped:
        if all(key in at for key in keys):
            return kinds[kind](at)
    if type(name) is str:
        raise UnsupportedError(f"no {stage} is called {shown(name)}", field=at.path("type"))
    at.string("type")
    raise AssertionError


# Normalizers


def _precompiled(at: Fields) -> Normalizer:
    from base64 import b64decode

    try:
        charsmap = b64decode(at.string("precompiled_charsmap"), validate=True)
    except ValueError as error:
        raise FormatError(
            f"is not valid base64: {error}", field=at.path("precompiled_charsmap")
        ) from None
    return normalizers.Precompiled(charsmap)


NORMALIZERS: dict[str, Make] = {
    "BertNormalizer": lambda at: normalizers.Bert(
        clean_text=at.boolean("clean_text"),
        handle_chinese_chars=at.boolean("handle_chinese_chars"),
        strip_accents=at.optional_boolean("strip_accents"),
        lowercase=at.boolean("lowercase"),
    ),
    "Strip": lambda at: normalizers.Strip(at.boolean("strip_left"), at.boolean("strip_right")),
    "StripAccents": lambda _: normalizers.StripAccents(),
    "NFC": lambda _: normalizers.UnicodeForm("NFC"),
    "NFD": lambda _: normalizers.UnicodeForm("NFD"),
    "NFKC": lambda _: normalizers.UnicodeForm("NFKC"),
    "NFKD": lambda _: normalizers.UnicodeForm("NFKD"),
    "Sequence": lambda at: normalizers.Sequence(_steps(at, "normalizers", _normalizer)),
    "Lowercase": lambda _: normalizers.Lowercase(),
    "Nmt": lambda _: normalizers.Nmt(),
    "Precompiled": _precompiled,
    "Replace": lambda at: normalizers.Replace(read_pattern(at), at.string("content")),
    "Prepend": lambda at: normalizers.Prepend(at.string("prepend")),
    "ByteLevel": lambda _: normalizers.ByteLevel(),
}
NORMALIZERS["Bert"] = NORMALIZERS["BertNormalizer"]  # the library's list of names says Bert

_UNTYPED_NORMALIZERS = (
    (("clean_text", "handle_chinese_chars", "lowercase"), "BertNormalizer"),
    (("strip_left", "strip_right"), "Strip"),
    (("normalizers",), "Sequence"),
    (("precompiled_charsmap",), "Precompiled"),
    (("pattern", "content"), "Replace"),
    (("prepend",), "Prepend"),
)


def _normalizer(value: Any, where: str) -> Normalizer:
    made: Normalizer = _component(value, where, NORMALIZERS, _UNTYPED_NORMALIZERS, "normalizer")
    return made


# Pre-tokenizers


def _metaspace(at: Fields) -> tuple[str, Any, bool]:
    """Read replacement, prepend_scheme and split; ``add_prefix_space`` is the older spelling."""
    replacement = at.character("replacement")
    scheme = at.choice("prepend_scheme", SCHEMES, "always")
    if at.optional_boolean("add_prefix_space") is False and scheme != "never":
        raise FormatError(
            "is false, which contradicts prepend_scheme", field=at.path("add_prefix_space")
        )
    split = at.optional_boolean("split")
    return replacement, scheme, split is not False


def _byte_level(at: Fields) -> pre_tokenizers.ByteLevel:
    return pre_tokenizers.ByteLevel(
        add_prefix_space=at.boolean("add_prefix_space"),
        trim_offsets=at.boolean("trim_offsets"),
        use_regex=at.boolean("use_regex", default=True),
    )


PRE_TOKENIZERS: dict[str, Make] = {
    "BertPreTokenizer": lambda _: pre_tokenizers.Bert(),
    "ByteLevel": _byte_level,
    "CharDelimiterSplit": lambda at: pre_tokenizers.CharDelimiterSplit(at.character("delimiter")),
    "Metaspace": lambda at: pre_tokenizers.Metaspace(*_metaspace(at)),
    "Whitespace": lambda _: pre_tokenizers.Whitespace(),
    "Sequence": lambda at: pre_tokenizers.Sequence(_steps(at, "pretokenizers", _pre_tokenizer)),
    "Split": lambda at: pre_tokenizers.Split(
        read_pattern(at), at.choice("behavior", BEHAVIORS), at.boolean("invert")
    ),
    "Punctuation": lambda at: pre_tokenizers.Punctuation(
        at.choice("behavior", BEHAVIORS, "isolated")
    ),
    "WhitespaceSplit": lambda _: pre_tokenizers.WhitespaceSplit(),
    "Digits": lambda at: pre_tokenizers.Digits(at.boolean("individual_digits")),
    "UnicodeScripts": lambda _: pre_tokenizers.UnicodeScripts(),
    "FixedLength": lambda at: pre_tokenizers.FixedLength(at.integer("length", 5, most=U64)),
}


def _pre_tokenizer(value: Any, where: str) -> PreTokenizer:
    made: PreTokenizer = _component(value, where, PRE_TOKENIZERS, (), "pre-tokenizer")
    return made


# Post-processors


def _token(at: Fields, key: str) -> tuple[str, int]:
    value = at.items(key)
    if len(value) == 2 and type(value[0]) is str and type(value[1]) is int and 0 <= value[1] <= U32:
        return value[0], value[1]
    raise FormatError("is not a token and its id", field=at.path(key))


def _slots(at: Fields, key: str, special: Fields) -> tuple[post_processors.Slot, ...]:
    """Read a template; what it repeats is read and kept once."""
    made: dict[str, post_processors.Slot] = {}
    slots = []
    for i, item in enumerate(at.items(key)):
        spelled = repr(item)
        if spelled not in made:
            made[spelled] = _slot(Fields(item, f"{at.path(key)}[{i}]"), special)
        slots.append(made[spelled])
    return tuple(slots)


def _slot(place: Fields, special: Fields) -> post_processors.Slot:
    if len(place.values) != 1 or not ("Sequence" in place or "SpecialToken" in place):
        raise FormatError("is neither a Sequence nor a SpecialToken", field=place.where)
    kind = next(iter(place.values))
    inner = place.object(kind)
    type_id = inner.integer("type_id")
    if kind == "Sequence":
        text = inner.choice("id", {"A": 0, "B": 1})
        return post_processors.Slot(text=text, type_id=type_id)
    name = inner.string("id")
    if name not in special:
        raise FormatError(f"has no {shown(name)}, a template uses it", field=special.where)
    return post_processors.Slot(ids=_ids(special.object(name)), type_id=type_id, name=name)


def _ids(token: Fields) -> tuple[int, ...]:
    ids = token.items("ids")
    if not all(type(number) is int and 0 <= number <= U32 for number in ids):
        raise FormatError("are not all ids", field=token.path("ids"))
    if not all(type(name) is str for name in token.items("tokens")):
        raise FormatError("are not all strings", field=token.path("tokens"))
    return tuple(ids)


def _template(at: Fields) -> post_processors.Template:
    special = at.object("special_tokens")
    return post_processors.Template(_slots(at, "single", special), _slots(at, "pair", special))


def _post_processor(value: Any, where: str) -> PostProcessor:
    at = Fields(value, where)
    name = at.values.get("type")
    if "sep" in at and "cls" in at:
        if "trim_offsets" in at and "add_prefix_space" in at:
            return post_processors.Roberta(
                sep=_token(at, "sep"),
                cls=_token(at, "cls"),
                trim_offsets=at.boolean("trim_offsets"),
                add_prefix_space=at.boolean("add_prefix_space"),
            )
        return post_processors.Bert(sep=_token(at, "sep"), cls=_token(at, "cls"))
    if name == "ByteLevel":
        made = _byte_level(at)
        return post_processors.ByteLevel(made.trim_offsets, made.add_prefix_space, made.use_regex)
    if "single" in at and "pair" in at and "special_tokens" in at:
        return _template(at)
    if name == "Sequence":
        return post_processors.Sequence(_steps(at, "processors", _post_processor))
    known = {"RobertaProcessing": "sep", "BertProcessing": "sep", "TemplateProcessing": "single"}
    if type(name) is str and name in known:
        at.get(known[name])
        raise FormatError("lacks fields of its type", field=where)
    if type(name) is str:
        raise UnsupportedError(f"no post-processor is called {shown(name)}", field=at.path("type"))
    at.string("type")
    raise AssertionError


# Decoders

DECODERS: dict[str, Make] = {
    "BPEDecoder": lambda at: decoders.BPE(at.string("suffix")),
    "ByteLevel": lambda at: _byte_level(at) and decoders.ByteLevel(),
    "WordPiece": lambda at: decoders.WordPiece(at.string("prefix"), at.boolean("cleanup")),
    "Metaspace": lambda at: decoders.Metaspace(*_metaspace(at)),
    "CTC": lambda at: decoders.CTC(
        at.string("pad_token"), at.string("word_delimiter_token"), at.boolean("cleanup")
    ),
    "Sequence": lambda at: decoders.Sequence(_steps(at, "decoders", _decoder)),
    "Replace": lambda at: decoders.Replace(read_pattern(at), at.string("content")),
    "Fuse": lambda _: decoders.Fuse(),
    "Strip": lambda at: decoders.Strip(
        at.character("content"), at.integer("start", most=U64), at.integer("stop", most=U64)
    ),
    "ByteFallback": lambda _: decoders.ByteFallback(),
}

_UNTYPED_DECODERS = (
    (("suffix",), "BPEDecoder"),
    (("prefix", "cleanup"), "WordPiece"),
    (("pad_token", "word_delimiter_token", "cleanup"), "CTC"),
    (("pattern", "content"), "Replace"),
    (("content", "start", "stop"), "Strip"),
)


def _decoder(value: Any, where: str) -> Decoder:
    made: Decoder = _component(value, where, DECODERS, _UNTYPED_DECODERS, "decoder")
    return made


def read_stage(root: Fields, key: str) -> Any:
    """Read ``normalizer``, ``pre_tokenizer``, ``post_processor`` or ``decoder``; None for null."""
    value = root.get(key, None)
    return None if value is None else READERS[key](value, key)


READERS: dict[str, Callable[[Any, str], Any]] = {
    "normalizer": _normalizer,
    "pre_tokenizer": _pre_tokenizer,
    "post_processor": _post_processor,
    "decoder": _decoder,
}
