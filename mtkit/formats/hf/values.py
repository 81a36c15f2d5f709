"""Values of the fields of components: patterns, character maps, tokens, templates.

A template has places for texts and for special tokens, which are listed beside it by name.

Source: huggingface/tokenizers 0.23, processors/template.rs, pre_tokenizers/metaspace.rs.
"""

from __future__ import annotations

from mtkit.errors import FormatError
from mtkit.formats.json_fields import U32, Fields, shown
from mtkit.spec.post_processors import Slot
from mtkit.spec.text import Regex, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.spec.post_processors import Template
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
        raise FormatError(
            "is false, which contradicts prepend_scheme", field=at.path("add_prefix_space")
        )
    return scheme


def read_token(at: Fields, key: str) -> tuple[str, int]:
    """Read a token and its id."""
    value = at.items(key)
    if len(value) == 2 and type(value[0]) is str and type(value[1]) is int and 0 <= value[1] <= U32:
        return value[0], value[1]
    raise FormatError("is not a token and its id", field=at.path(key))


def read_slots(at: Fields, key: str) -> tuple[Slot, ...]:
    """Read a template; what it repeats is read and kept once."""
    special = at.object("special_tokens")
    made: dict[str, Slot] = {}
    slots = []
    for i, item in enumerate(at.items(key)):
        spelled = repr(item)
        if spelled not in made:
            made[spelled] = _slot(Fields(item, f"{at.path(key)}[{i}]"), special)
        slots.append(made[spelled])
    return tuple(slots)


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
        raise FormatError(f"has no {shown(name)}, but a template uses it", field=special.where)
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
