"""The vocabulary of a GGUF as llama.cpp reads it: keys to a specification.

docs/formats/gguf-vocabulary.md has the rules.

Source: llama.cpp, src/llama-vocab.cpp (``llama_vocab::impl::load``).
"""

from __future__ import annotations

from functools import partial

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.gguf.metadata import (
    ID_KEYS,
    KINDS,
    NO_VOCABULARY,
    OLD_ID_KEYS,
    STAND_IN,
    Keys,
    default_ids,
    read_extras,
)
from mtkit.formats.gguf.pre_tokenizers import NAMES
from mtkit.formats.gguf.roles import CONTROL, LSTRIP, RSTRIP, UNKNOWN, resolve_roles, types_by_roles
from mtkit.formats.gguf.stages import Frame, build_stages, check_bytes, read_charsmap
from mtkit.formats.gguf.vocabulary import SPELLED_MODELS, merge_lines, parse_texts
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    ChatTemplate,
    SpecialIds,
    TokenizerSpec,
    TokenType,
    Vocabulary,
)
from mtkit.unicode.charsmap import Charsmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.formats.gguf.metadata import Kind
    from mtkit.formats.gguf.pre_tokenizers import Pre
    from mtkit.formats.gguf.roles import Roles

PREFIX = "tokenizer.ggml."
TEMPLATE = "tokenizer.chat_template"
ASIDE = "chat-template"
"""The part that no other part needs."""
MAX_DUMMY_TOKENS = 1 << 26
"""More than a model without a vocabulary can have."""
_KNOWN_TYPES = bytes(range(TokenType.BYTE + 1)).ljust(256, b"\0")
"""Lowest byte of a type -> role; the host is little-endian wherever mtkit runs."""


def read_spec(keys: Keys) -> TokenizerSpec:
    """Build the specification from the keys."""
    architecture = _architecture(keys)
    name = keys.text("general.name") or ""
    kind = _kind(keys, architecture)
    pre_name, pre = _pre(keys, kind)
    texts = _texts(keys)
    raw = list(texts)
    types = _types(keys, len(raw))
    roles = resolve_roles(
        types,
        raw,
        texts.ids,
        _ids(keys, len(raw)),
        default_ids(kind, pre, len(raw)),
        pre=pre_name,
        architecture=architecture,
        name=name,
    )
    vocabulary = Vocabulary(
        Pieces.of(parse_texts(kind.model, raw)) if kind.model in SPELLED_MODELS else texts,
        Numbers.of("B", types_by_roles(types, roles)),
        _scores(keys, len(raw)) if kind.scored else None,
    )
    prefix = keys.flag(PREFIX + "add_space_prefix")
    frame = Frame(
        keys,
        kind,
        pre,
        vocabulary,
        roles.ids,
        {role: raw[roles.ids[role]].decode("utf-8", "replace") for role in roles.ids},
        _added_ends(keys, kind, pre),
        kind.add_space_prefix if prefix is None else prefix,
    )
    return TokenizerSpec(
        vocabulary=vocabulary,
        added_tokens=added_tokens(raw, roles),
        special_ids=SpecialIds(
            **{role: roles.stated.get(role) for role in ID_KEYS}, stop=roles.stated_stop
        ),
        chat_templates=_templates(keys),
        extras=read_extras(keys, kind, pre_name, architecture),
        name=name,
        **build_stages(frame),
    )


def read_parts(keys: Keys) -> tuple[Vocabulary | None, tuple[tuple[str, FormatError], ...]]:
    """Read a vocabulary part by part, where ``read_spec`` stops at the first error.

    Returns:
        Texts, types and scores of the file, if they are sound, and (part, error) of each part that
        is not; the part ``vocabulary`` is for faults of the parts together.
    """
    errors: list[tuple[str, FormatError]] = []

    def tried(part: str, read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return read(keys, *arguments)
        except FormatError as error:
            errors.append((part, error))
            return None

    tried("name", Keys.text, "general.name")
    kind = tried("tokenizer-model", _kind, tried("architecture", _architecture) or "")
    _, pre = (kind and tried("pre-tokenizer", _pre, kind)) or ("", None)
    texts = tried("tokens", _texts) or Pieces.of(())
    size = len(texts)
    types = tried("token-types", _types, size)
    scores = tried("scores", _scores, size)
    if kind and kind.family == "ugm":
        tried("charsmap", _charsmap)
    tried("special-ids", _ids, size)
    if kind:
        tried("added-ends", _added_ends, kind, pre)
    is_whole = not errors
    tried(ASIDE, _templates)
    if pre and is_whole:
        tried("vocabulary", partial(merge_lines, required=pre.needs_merges))
    if any(part != ASIDE for part, _ in errors):
        return None, tuple(errors)
    vocabulary = Vocabulary(texts, Numbers("B", types), scores)
    tried("vocabulary", lambda _: check_bytes(kind.family, vocabulary))
    return vocabulary, tuple(errors)


def _charsmap(keys: Keys) -> None:
    """Follow every first byte into the trie, which does not prove that all of it is sound."""
    data = read_charsmap(keys)
    if data:
        charsmap = Charsmap(data)
        for byte in range(1, 256):
            charsmap.matches(bytes([byte]))


def _architecture(keys: Keys) -> str:
    architecture = keys.text("general.architecture")
    if architecture is None:
        raise FormatError("is missing", field="general.architecture")
    return architecture


def _kind(keys: Keys, architecture: str) -> Kind:
    key = PREFIX + "model"
    model = keys.text(key)
    if model is None:
        what = "is missing"
        raise FormatError(what, field=key, hint="in a sharded model only the first file has it")
    if model in NO_VOCABULARY:
        size = keys.number(f"{architecture}.vocab_size") or 0
        if size > MAX_DUMMY_TOKENS:
            raise keys.error(f"{architecture}.vocab_size", f"is {size}")
        raise UnsupportedError("this model has no vocabulary, text cannot be encoded", field=key)
    if model == STAND_IN:
        raise UnsupportedError("llama.cpp's stand-in for its own tests is not supported", field=key)
    if model not in KINDS:
        raise keys.error(key, f"is {model!r}; known: {', '.join(sorted(KINDS))}")
    return KINDS[model]


def _pre(keys: Keys, kind: Kind) -> tuple[str, Pre | None]:
    """Return name and meaning of the pre-tokenizer; only byte-pair vocabularies have one."""
    key = PREFIX + "pre"
    name = keys.text(key) or ""
    if kind.family != "bpe":
        return name, None
    if kind.model == "gemma4":
        return "gemma4", NAMES["gemma4"]
    pre = NAMES.get(name or "default")
    if pre is None:
        raise keys.error(key, f"is {name!r}, llama.cpp knows no such pre-tokenizer")
    if pre.rule == "whitespace" and kind.model != "whitespace":
        raise keys.error(key, f"is {name!r}, which works with the model whitespace only")
    return name, pre


def _texts(keys: Keys) -> Pieces:
    """Return the texts by id: cut at NUL, empty ones named."""
    key = PREFIX + "tokens"
    array = keys.array(key, "string")
    if array is None:
        raise FormatError("is missing", field=key)
    if not len(array):
        raise keys.error(key, "is empty")
    texts = array.pieces()
    if b"\0" not in bytes(texts.blob) and not texts.has_empty():
        return texts
    cut = (text.split(b"\0", 1)[0] for text in texts)
    return Pieces.of(text or b"[EMPTY_%d]" % number for number, text in enumerate(cut))


def _types(keys: Keys, size: int) -> bytes:
    """Return the role of each token; an unknown number is UNDEFINED."""
    array = keys.array(PREFIX + "token_type", "i32", at_least=size)
    if array is None:
        return bytes((TokenType.NORMAL,)) * size
    data = array.numbers().data[: 4 * size].tobytes()
    if any(data[place::4].strip(b"\0") for place in (1, 2, 3)):
        return bytes(role if 0 < role <= TokenType.BYTE else 0 for role in array.numbers()[:size])
    return data[::4].translate(_KNOWN_TYPES)


def _scores(keys: Keys, size: int) -> Numbers:
    array = keys.array(PREFIX + "scores", "f32", "i32", at_least=size)
    if array is None:
        return Numbers("f", bytes(4 * size))
    numbers = array.numbers()
    return (
        numbers if numbers.code == "f" and len(numbers) == size else Numbers.of("f", numbers[:size])
    )


def _ids(keys: Keys, size: int) -> dict[str, int]:
    """Return role -> id by the keys; ids past the vocabulary do not count."""
    ids: dict[str, int] = {}
    for names in (ID_KEYS, OLD_ID_KEYS):
        for role, name in names.items():
            number = keys.number(PREFIX + name)
            if number is not None and number < size:
                ids[role] = number
    return ids


def _added_ends(keys: Keys, kind: Kind, pre: Pre | None) -> frozenset[str]:
    """Return which of bos, eos and sep are added."""
    defaults = {
        "bos": kind.add_bos or bool(pre and pre.add_bos),
        "eos": kind.add_eos,
        "sep": kind.add_sep or bool(pre and pre.add_sep),
    }
    for role in defaults:
        flag = keys.flag(f"{PREFIX}add_{role}_token")
        if flag is not None:
            defaults[role] = flag
    if pre is not None and pre.forced_bos:
        defaults["bos"] = True
    return frozenset(role for role, added in defaults.items() if added)


def added_tokens(raw: list[bytes], roles: Roles) -> AddedTokens:
    """Return the tokens that are cut out of a text, in that order."""
    bits = roles.attributes
    return AddedTokens(
        tuple(
            AddedToken(
                token,
                raw[token],
                lstrip=bool(bits[token] & LSTRIP),
                rstrip=bool(bits[token] & RSTRIP),
                special=bool(bits[token] & (CONTROL | UNKNOWN)),
            )
            for token in roles.special
        ),
        match="longest_first",
        strip="ascii",
    )


def _templates(keys: Keys) -> tuple[ChatTemplate, ...]:
    templates: dict[str, ChatTemplate] = {}
    for key in (*keys.file.metadata, *keys.overrides):
        name = key[len(TEMPLATE) + 1 :] if key.startswith(TEMPLATE + ".") else "default"
        if key == TEMPLATE or key.startswith(TEMPLATE + "."):
            text = keys.text(key)
            if text is not None:
                templates.setdefault(name, ChatTemplate(name, text))
    return tuple(templates.values())
