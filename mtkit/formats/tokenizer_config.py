"""tokenizer_config.json and its neighbors: the settings of a class of transformers, and its tokens.

tokenizer_config.json names the class, its switches and its special tokens, in
``added_tokens_decoder`` also the other added tokens. Only where it has none of these,
special_tokens_map.json and added_tokens.json count. Ids in these files are not used: a token has
the id that the vocabulary has for its text, else the next free one, counted from the number of
tokens.

Source: huggingface/transformers 5, tokenization_utils_base.py (``_from_pretrained``, ``__init__``),
tokenization_utils_tokenizers.py (``TokenizersBackend``), models/qwen2, models/qwen3_5
(``PRETOKENIZE_REGEX``); huggingface/tokenizers 0.23, tokenizer/added_vocabulary.rs (``add_tokens``:
the id in a file is not used).
"""

from __future__ import annotations

from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.json_fields import Fields, check_plain, encode_text, format_value, parse_json
from mtkit.spec import AddedToken, AddedTokens, SpecialIds, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, Literal

    from mtkit.base.binary import Source
    from mtkit.spec import TokenizerSpec

    Again = Literal["plain", "kept"] | None
    """How a class adds its special tokens again: "plain" resets their flags, "kept" does not."""


QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN3_5_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


CONFIG = "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def number_tokens(
    tokens: Iterable[AddedToken], ids: Mapping[bytes, int], following: int
) -> tuple[dict[int, AddedToken], dict[bytes, int]]:
    """Give added tokens the ids of the vocabulary or the next free ones.

    Of one text the last entry counts. Where a vocabulary has holes, a free id can be that of
    another token, which is replaced.

    Returns:
        The tokens by id, in the order in which the ids first occur, and text -> id.
    """
    numbers: dict[bytes, int] = {}
    by_id: dict[int, AddedToken] = {}
    special = set()
    for token in tokens:
        content = token.content
        if not content:
            continue
        if content not in numbers:
            numbers[content] = ids.get(content, following)
            following += content not in ids
        if token.special:
            special.add(content)  # later entries cannot undo it
        number = numbers[content]
        by_id[number] = replace(token, id=number, special=content in special)
    return by_id, numbers


def token_form(token: AddedToken) -> dict[str, Any]:
    """Return an added token as JSON, without its id."""
    content = token.content.decode("utf-8", "replace")
    return {"content": content, **{flag: getattr(token, flag) for flag in TOKEN_FLAGS}}


ADDED_TOKENS = "added_tokens.json"
EXTRA, ADDITIONAL = "extra_special_tokens", "additional_special_tokens"
_BUILDING_SETTINGS = ("init_inputs", "vocab", "merges", "tokenizer_object", "post_processor")
"""Settings that would take the place of the vocabulary files."""
GENERIC_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes that build any tokenizer.json, so that they say nothing of the files beside it."""


class Settings:
    """The files beside a vocabulary."""

    def __init__(self, source: Source, document: Iterable[AddedToken] | None = None) -> None:
        """Read them."""
        self.config = _object(source, CONFIG)
        self._document = document
        self._has_document = source.beside("tokenizer.json") is not None
        self._decoder = "added_tokens_decoder" in self.config
        self._map = Fields({}, SPECIAL) if self._decoder else _object(source, SPECIAL)
        self._added = Fields({}, ADDED_TOKENS) if self._decoder else _object(source, ADDED_TOKENS)
        for key in _BUILDING_SETTINGS:
            if self.config.values.get(key):
                raise UnsupportedError("would replace the files", field=self.config.path(key))

    def family(self, families: Mapping[str, str]) -> str | None:
        """Return the entry of ``families`` for the class in the files; None where none is named."""
        name = self.config.optional_string("tokenizer_class")
        if name is None or (name in GENERIC_CLASSES and self._has_document):
            return None
        family = families.get(name.removesuffix("Fast"))
        if family is None:
            known = ", ".join(families)
            what = f"is {format_value(name)}, which builds a different tokenizer from these files"
            raise UnsupportedError(
                what, field=self.config.path("tokenizer_class"), hint=f"known: {known}"
            )
        return family

    def flag(self, key: str, default: bool) -> bool:
        """Return a switch; null is the default."""
        value = self.config.optional_boolean(key)
        return default if value is None else value

    def role_tokens(
        self, defaults: Mapping[str, str], marks: Mapping[str, Mapping[str, bool]] | None = None
    ) -> dict[str, AddedToken | None]:
        """Return the token of each role, standard ones first; None where the files say null.

        Args:
            defaults: Role -> text, for roles that have a token by default.
            marks: Role -> flags of its token, where the files give its text alone.
        """
        tokens = self._role_tokens(defaults)
        for role, flags in (marks or {}).items():
            token = tokens.get(role)
            key = f"{role}_token"
            table = self._map if key in self._map else self.config
            if token is not None and type(table.values.get(key, "")) is str:
                tokens[role] = replace(token, **flags)
        return tokens

    def _role_tokens(self, defaults: Mapping[str, str]) -> dict[str, AddedToken | None]:
        tokens: dict[str, AddedToken | None] = {}
        for role in ROLES:
            key = f"{role}_token"
            if key in self._map:
                tokens[role] = _token(self._map, key, special=True, marked=False)
            elif key in self.config:
                tokens[role] = _token(self.config, key, special=True)
            else:
                text = defaults.get(role)
                tokens[role] = None if text is None else _special(text, "")
        more = {role: text for role, text in defaults.items() if role not in ROLES}
        tokens.update({role: _special(text, "") for role, text in more.items()})
        for table in (self.config, self._map):
            for key, value in table.values.items():
                role = key.removesuffix("_token")
                if role != key and role not in ROLES and type(value) is str:
                    tokens[role] = _special(value, table.path(key))
        for table in (self.config, self._map):
            extra = table.values.get(EXTRA)
            if type(extra) is dict:
                names = Fields(extra, table.path(EXTRA))
                tokens.update({name: _token(names, name, special=True) for name in extra})
        return tokens

    def _extra(self) -> tuple[list[AddedToken], list[AddedToken]]:
        """Return the special tokens that have no role.

        The class reads those of the second list later, behind added_tokens.json.
        """
        config, extra = self.config.values, self.config.values.get(EXTRA)
        is_table = type(extra) is dict
        key = ADDITIONAL if ADDITIONAL in config and not extra else EXTRA
        early = [] if is_table else _tokens(self.config, key)
        is_complete = key in config and not is_table
        if type(self._map.values.get(EXTRA)) is list:
            more = _tokens(self._map, EXTRA, marked=False)
            return [*early, *(token for token in more if token not in early)], []
        late = self._map if ADDITIONAL in self._map else self.config
        return early, [] if is_complete else _tokens(late, ADDITIONAL)

    def _listed(
        self, early: set[bytes], roles: set[bytes]
    ) -> Iterator[tuple[AddedToken, AddedToken]]:
        """Yield the added tokens that the files list with ids, in the order of the ids.

        Each as the files have it, and with ``special`` set where its text has a role.
        """
        if self._decoder:
            table = self.config.object("added_tokens_decoder")
            for key in sorted(table.values, key=lambda key: _number(key, table)):
                token = table.object(key)
                special = encode_text(token.string("content"), table.where) in roles
                yield _from_object(token, special=False), _from_object(token, special=special)
            return
        listed: dict[int, AddedToken] = {}
        for text in sorted(self._added.values, key=self._added.integer):
            content = encode_text(text, ADDED_TOKENS)
            normalized, special = content not in early, content in early or content in roles
            listed[self._added.integer(text)] = AddedToken(
                -1, content, special=special, normalized=normalized
            )
        listed.update((entry.id, replace(entry, id=-1)) for entry in self._document or ())
        for number in sorted(listed):
            entry = listed[number]
            yield entry, replace(entry, special=entry.special or entry.content in roles)

    def added_tokens(
        self, roles: Mapping[str, AddedToken | None], ids: Mapping[bytes, int], *, again: Again
    ) -> tuple[AddedTokens, SpecialIds]:
        """Return all added tokens, numbered as the library does, and the ids of the roles."""
        tokens = self.tokens(roles, again=again)
        by_id, numbers = number_tokens(tokens, ids, len(ids))
        parse_special = not self.flag("split_special_tokens", False)
        added = AddedTokens(
            tuple(by_id[number] for number in sorted(by_id)), parse_special=parse_special
        )
        role_ids = {
            role: numbers.get(token.content) for role in ROLES if (token := roles[role]) is not None
        }
        return added, SpecialIds(**role_ids, stop=())

    def tokens(
        self,
        roles: Mapping[str, AddedToken | None],
        *,
        again: Again = None,
        extra: Iterable[str] = (),
        present: Iterable[AddedToken] = (),
    ) -> list[AddedToken]:
        """Return all added tokens in the order in which the library gets them, without ids.

        Args:
            extra: Special tokens without a role that the class has where the files name none.
            present: Tokens of the tokenizer: one that is listed is added once more, one that only
                has a role is not.
        """
        role_tokens = [token for token in roles.values() if token is not None]
        early, late = self._extra()
        if extra and not self._names_extra():
            early = [_special(text, "") for text in extra]
        special = [*role_tokens, *early, *late]
        texts_before = {token.content for token in early}
        texts_before |= {t.content for role, t in roles.items() if t and self._names(role)}
        listed = list(self._listed(texts_before, {token.content for token in role_tokens}))
        contents = {token.content for token in present} | {token.content for token, _ in listed}
        tokens = [marked for _, marked in listed]
        tokens += [token for token in dict.fromkeys(special) if token.content not in contents]
        if again == "plain":
            texts = dict.fromkeys(token.content for token in special)
            tokens += [AddedToken(-1, content, special=True) for content in texts]
        elif again == "kept":
            by_content = {token.content: token for token, _ in listed}
            first = [by_content.get(token.content, token) for token in role_tokens]
            tokens += [replace(token, special=True) for token in (*first, *early, *late)]
        return tokens

    def _names_extra(self) -> bool:
        """Tell whether the files list the special tokens without a role."""
        if ADDITIONAL in self._map:
            raise UnsupportedError("is added to by the class", field=self._map.path(ADDITIONAL))
        config, extra = self.config.values, self.config.values.get(EXTRA)
        if type(extra) is dict:
            return False
        is_moved = ADDITIONAL in config and not extra
        return is_moved or EXTRA in config or type(self._map.values.get(EXTRA)) is list

    def _names(self, role: str) -> bool:
        """Tell whether a role is read before added_tokens.json: objects are read later."""
        key = f"{role}_token"
        return key in self._map or type(self.config.values.get(key)) is str


def role_settings(
    spec: TokenizerSpec, roles: SpecialIds, defaults: Mapping[str, str], ids: Mapping[bytes, int]
) -> dict[str, Any]:
    """Return the settings of tokenizer_config.json from which roles and added tokens come back.

    Args:
        defaults: Role -> text, for roles that have a token by default.
    """
    texts = {number: piece for piece, number in ids.items()}
    texts.update({token.id: token.content for token in spec.added_tokens.tokens})
    settings: dict[str, Any] = {}
    contents = set()
    for role in ROLES:
        number = getattr(roles, role)
        text = None if number is None else texts.get(number, b"").decode("utf-8", "replace")
        if text:
            contents.add(text.encode("utf-8"))
        if text != defaults.get(role):
            settings[f"{role}_token"] = text
    listed = [
        token
        for token in spec.added_tokens.tokens
        if token.content not in ids or not _is_plain(token, contents)
    ]
    if listed:
        settings["added_tokens_decoder"] = {
            str(token.id): token_form(token)
            for token in sorted(spec.added_tokens.tokens, key=lambda token: token.id)
        }
    if not spec.added_tokens.parse_special:
        settings["split_special_tokens"] = True
    return settings


def _is_plain(token: AddedToken, contents: set[bytes]) -> bool:
    """Tell whether the text of its role alone gives a token."""
    return token.content in contents and token == AddedToken(token.id, token.content, special=True)


def _object(source: Source, name: str) -> Fields:
    data = source.beside(name)
    value = {} if data is None else parse_json(data, name)
    check_plain(value, name)
    return Fields(value, name)


def _number(key: str, table: Fields) -> int:
    if not (key.isascii() and key.isdigit() and len(key) < 10):
        raise FormatError(f"has the key {format_value(key)}, not an id", field=table.where)
    return int(key)


def _special(text: str, where: str) -> AddedToken:
    return AddedToken(-1, encode_text(text, where), special=True)


def _tokens(table: Fields, key: str, *, marked: bool = True) -> list[AddedToken]:
    items = table.items(key) if table.values.get(key) else []
    entries = Fields({f"{key}[{place}]": item for place, item in enumerate(items)}, table.where)
    tokens = (_token(entries, place, special=not marked, marked=marked) for place in entries.values)
    return [token for token in tokens if token is not None]


def _token(
    table: Fields, key: str, *, special: bool = False, marked: bool = True
) -> AddedToken | None:
    """Read a special token: a text, or an object with flags."""
    value = table.get(key)
    if value is None:
        return None
    if type(value) is str:
        return _special(value, table.path(key))
    if type(value) is not dict or (marked and value.get("__type") != "AddedToken"):
        raise table.wrong(key, "a token")
    return _from_object(table.object(key), special=special)


def _from_object(token: Fields, *, special: bool) -> AddedToken:
    flags = {flag: token.boolean(flag, False) for flag in TOKEN_FLAGS}
    flags["special"] |= special
    flags["normalized"] = token.boolean("normalized", not flags["special"])
    return AddedToken(-1, encode_text(token.string("content"), token.path("content")), **flags)
