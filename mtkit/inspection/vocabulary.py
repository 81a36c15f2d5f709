"""The tokenizer of a GGUF file as its metadata states it.

Nothing is checked or built here: a file whose tokenizer llama.cpp would refuse can still be
looked at. Values of an unexpected type are left out; the metadata table shows them.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.gguf import GgufArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.gguf import Metadata

TOKEN_TYPES = {1: "normal", 2: "unknown", 3: "control", 4: "user-defined", 5: "unused", 6: "byte"}

_KEY = "tokenizer.ggml."
_ID = "_token_id"
_FLAGS = ("add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix")
_TEMPLATE = "tokenizer.chat_template"


class SpecialId(Record):
    """A special id of the metadata.

    Attributes:
        role: ``bos``, ``eos``, ``unknown`` …, as the key names it.
        token_id: The id.
        text: Text of the token; None when the id is beyond the vocabulary.
    """

    role: str
    token_id: int
    text: str | None


class Vocabulary(Record):
    """A tokenizer in short.

    Attributes:
        model: ``tokenizer.ggml.model``; empty where it is missing or no string.
        pre: ``tokenizer.ggml.pre``; empty where it is missing or no string.
        tokens: Number of tokens.
        merges: Number of merges.
        types: Tokens by type, (name, count); empty where the file does not say.
        special_ids: Ids with a role.
        flags: (name, value) of ``add_bos_token`` and the like, where the file has them.
        chat_templates: Names of the chat templates; the plain one is "default".
    """

    model: str
    pre: str
    tokens: int
    merges: int
    types: tuple[tuple[str, int], ...]
    special_ids: tuple[SpecialId, ...]
    flags: tuple[tuple[str, bool], ...]
    chat_templates: tuple[str, ...]


def vocabulary(metadata: Metadata) -> Vocabulary | None:
    """Sum up the tokenizer; None where the metadata holds none."""
    if not any(key.startswith("tokenizer.") for key in metadata):
        return None
    tokens = _strings(metadata, "tokens")
    flags = [(name, metadata.get(_KEY + name)) for name in _FLAGS]
    templates = [key for key in metadata if key.startswith(_TEMPLATE) and key != _TEMPLATE + "s"]
    return Vocabulary(
        model=_text(metadata, "model"),
        pre=_text(metadata, "pre"),
        tokens=len(tokens) if tokens is not None else 0,
        merges=len(_strings(metadata, "merges") or ()),
        types=_types(metadata.get(_KEY + "token_type")),
        special_ids=_special_ids(metadata, tokens),
        flags=tuple((name, value) for name, value in flags if isinstance(value, bool)),
        chat_templates=tuple(key[len(_TEMPLATE) + 1 :] or "default" for key in templates),
    )


def _text(metadata: Metadata, name: str) -> str:
    value = metadata.get(_KEY + name)
    return value if isinstance(value, str) else ""


def _strings(metadata: Metadata, name: str) -> GgufArray | None:
    value = metadata.get(_KEY + name)
    is_strings = isinstance(value, GgufArray) and value.element.name == "string"
    return value if is_strings else None


def _types(value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, GgufArray) or value.element.name != "i32":
        return ()
    data = value.numbers().data.tobytes()
    low = data[::4]
    small = sum(data[shift::4].count(0) == len(low) for shift in (1, 2, 3)) == 3
    counts = {name: low.count(number) for number, name in TOKEN_TYPES.items()} if small else {}
    for number in () if small else value.numbers():
        name = TOKEN_TYPES.get(number, "undefined")
        counts[name] = counts.get(name, 0) + 1
    counts["undefined"] = len(value) - sum(
        many for name, many in counts.items() if name != "undefined"
    )
    return tuple((name, many) for name, many in counts.items() if many)


def _special_ids(metadata: Metadata, tokens: GgufArray | None) -> tuple[SpecialId, ...]:
    found = []
    for key, value in metadata.items():
        if not key.startswith(_KEY) or not key.endswith(_ID) or type(value) is not int:
            continue
        known = tokens is not None and 0 <= value < len(tokens)
        role = key[len(_KEY) : -len(_ID)]
        found.append(SpecialId(role, value, tokens[value] if tokens and known else None))
    return tuple(found)
