"""What tokenizer_config.json and its neighbors say of a class of transformers and its tokens.

Split patterns that several formats write down because a class has them built in.

Special and added tokens as transformers and tokenizers name, number and spell them.

The settings of a class of transformers that builds its tokenizer from vocabulary files.
tokenizer_config.json names the class, its switches and its special tokens, in
``added_tokens_decoder`` also the other added tokens. Only where it has none of these,
special_tokens_map.json and added_tokens.json count. Ids in these files are not used: a token has
the id that the vocabulary has for its text, else the next free one, counted from the number of
tokens.

Source: huggingface/transformers 5, models/qwen2, models/qwen3_5 (``PRETOKENIZE_REGEX``).
Source: huggingface/tokenizers 0.23, tokenizer/added_vocabulary.rs (``add_tokens``: the id in a file
is not used); huggingface/transformers 5, tokenization_utils_base.py.
Source: huggingface/transformers 5, tokenization_utils_base.py (``_from_pretrained``, ``__init__``),
tokenization_utils_tokenizers.py (``TokenizersBackend``); huggingface/tokenizers 0.23,
tokenizer/added_vocabulary.rs (``add_tokens``).
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
    another token, which takes its place.

    Args:
        following: The first free id: the number of tokens.

    Returns:
        The tokens by id, in the order in which ids came up, and the number that each text got.
    """
    numbers: dict[bytes, int] = {}
    found: dict[int, AddedToken] = {}
    special = set()
    for token in tokens:
        content = token.content
        if not content:
            continue
        if content not in numbers:
            numbers[content] = ids.get(content, following)
            following += content not in ids
        if token.special:
            special.add(content)  # what was special once stays so
        number = numbers[content]
        found[number] = replace(token, id=number, special=content in special)
    return found, numbers


def token_form(token: AddedToken) -> dict[str, Any]:
    """Return an added token as JSON, without its id."""
    content = token.content.decode("utf-8", "replace")
    return {"content": content, **{flag: getattr(token, flag) for flag in TOKEN_FLAGS}}


ADDED_TOKENS = "added_tokens.json"
EXTRA, ADDITIONAL = "extra_special_tokens", "additional_special_tokens"
_BUILDING_SETTINGS = ("init_inputs", "vocab", "merges", "tokenizer_object", "post_processor")
"""Settings that would take the place of the vocabulary files."""
GENERIC_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes that build whatever a tokenizer.json says; they say nothing of the files around it."""


class Settings:
    """The files beside a vocabulary."""

    def __init__(self, source: Source, document: Iterable[AddedToken] | None = None) -> None:
        """Read them.

        Args:
            document: The added tokens of a tokenizer.json that is the vocabulary, with the ids
                that it has for them.
        """
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
        """Return what ``families`` has for the class that is named; None where none is."""
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

    def named(
        self,
        defaults: Mapping[str, str],
        marks: Mapping[str, Mapping[str, bool]] | None = None,
    ) -> dict[str, AddedToken | None]:
        """Return the token of each role, standard ones first; None where the files say null.

        Args:
            defaults: Role -> text, for those that the class has a token for.
            marks: Role -> how its token is found, where it is named by its text alone.
        """
        found = self._named(defaults)
        for role, flags in (marks or {}).items():
            token = found.get(role)
            key = f"{role}_token"
            table = self._map if key in self._map else self.config
            if token is not None and type(table.values.get(key, "")) is str:
                found[role] = replace(token, **flags)
        return found

    def _named(self, defaults: Mapping[str, str]) -> dict[str, AddedToken | None]:
        found: dict[str, AddedToken | None] = {}
        for role in ROLES:
            key = f"{role}_token"
            if key in self._map:
                found[role] = _token(self._map, key, special=True, marked=False)
            elif key in self.config:
                found[role] = _token(self.config, key, special=True)
            else:
                text = defaults.get(role)
                found[role] = None if text is None else _special(text, "")
        more = {role: text for role, text in defaults.items() if role not in ROLES}
        found.update({role: _special(text, "") for role, text in more.items()})
        for table in (self.config, self._map):
            for key, value in table.values.items():
                role = key.removesuffix("_token")
                if role != key and role not in ROLES and type(value) is str:
                    found[role] = _special(value, table.path(key))
        for table in (self.config, self._map):
            extra = table.values.get(EXTRA)
            if type(extra) is dict:
                names = Fields(extra, table.path(EXTRA))
                found.update({name: _token(names, name, special=True) for name in extra})
        return found

    def _extra(self) -> tuple[list[AddedToken], list[AddedToken]]:
        """Return the special tokens that have no role.

        Those of the second list the class finds later: added_tokens.json does not know of them.
        """
        config, given = self.config.values, self.config.values.get(EXTRA)
        named = type(given) is dict
        key = ADDITIONAL if ADDITIONAL in config and not given else EXTRA
        early = [] if named else _tokens(self.config, key)
        is_said = key in config and not named
        if type(self._map.values.get(EXTRA)) is list:
            more = _tokens(self._map, EXTRA, marked=False)
            return [*early, *(token for token in more if token not in early)], []
        late = self._map if ADDITIONAL in self._map else self.config
        return early, [] if is_said else _tokens(late, ADDITIONAL)

    def _listed(
        self, said: set[bytes], roles: set[bytes]
    ) -> Iterator[tuple[AddedToken, AddedToken]]:
        """Yield the added tokens that are listed with their ids, in the order of these.

        Each as the files have it, and as it is where its text has a role.
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
            normalized, special = content not in said, content in said or content in roles
            found = AddedToken(-1, content, special=special, normalized=normalized)
            listed[self._added.integer(text)] = found
        listed.update((one.id, replace(one, id=-1)) for one in self._document or ())
        for number in sorted(listed):
            one = listed[number]
            yield one, replace(one, special=one.special or one.content in roles)

    def added(
        self, named: Mapping[str, AddedToken | None], ids: Mapping[bytes, int], *, again: Again
    ) -> tuple[AddedTokens, SpecialIds]:
        """Return all added tokens, numbered as the library does, and the ids of the roles.

        Args:
            again: The class adds its special tokens once more: "plain" resets how they are found,
                "kept" does not.
        """
        tokens = self.tokens(named, again=again)
        by_id, numbers = number_tokens(tokens, ids, len(ids))
        found = tuple(by_id[number] for number in sorted(by_id))
        parse_special = not self.flag("split_special_tokens", False)
        given = {role: named[role] for role in ROLES}
        of_roles = {role: numbers.get(token.content) for role, token in given.items() if token}
        return AddedTokens(found, parse_special=parse_special), SpecialIds(**of_roles, stop=())

    def tokens(
        self,
        named: Mapping[str, AddedToken | None],
        *,
        again: Again = None,
        extra: Iterable[str] = (),
        present: Iterable[AddedToken] = (),
    ) -> list[AddedToken]:
        """Return all added tokens in the order in which the library gets them, without ids.

        Args:
            again: As ``added`` takes it.
            extra: Special tokens without a role that the class has where the files name none.
            present: What the tokenizer has already: a token that is listed is added once more, one
                that only has a role is not.
        """
        roles = [token for token in named.values() if token is not None]
        early, late = self._extra()
        if extra and not self._names_extra():
            early = [_special(text, "") for text in extra]
        special = [*roles, *early, *late]
        said = {token.content for token in early}
        said |= {token.content for role, token in named.items() if token and self._names(role)}
        contents = {token.content for token in roles}
        listed = list(self._listed(said, contents))
        known = {token.content for token in present} | {token.content for token, _ in listed}
        tokens = [marked for _, marked in listed]
        tokens += [token for token in dict.fromkeys(special) if token.content not in known]
        if again == "plain":
            texts = dict.fromkeys(token.content for token in special)
            tokens += [AddedToken(-1, content, special=True) for content in texts]
        elif again == "kept":
            by_content = {token.content: token for token, _ in listed}
            kept = [by_content.get(token.content, token) for token in roles]
            tokens += [replace(token, special=True) for token in (*kept, *early, *late)]
        return tokens

    def _names_extra(self) -> bool:
        """Tell whether the files say which special tokens have no role."""
        if ADDITIONAL in self._map:
            raise UnsupportedError("is added to by the class", field=self._map.path(ADDITIONAL))
        config, given = self.config.values, self.config.values.get(EXTRA)
        if type(given) is dict:
            return False
        is_moved = ADDITIONAL in config and not given
        return is_moved or EXTRA in config or type(self._map.values.get(EXTRA)) is list

    def _names(self, role: str) -> bool:
        """Tell whether added_tokens.json knows of a role: objects are read too late for that."""
        key = f"{role}_token"
        return key in self._map or type(self.config.values.get(key)) is str


def role_settings(
    spec: TokenizerSpec, roles: SpecialIds, defaults: Mapping[str, str], ids: Mapping[bytes, int]
) -> dict[str, Any]:
    """Return what tokenizer_config.json must say so that roles and added tokens come back.

    Args:
        defaults: Role -> text, for those that the class has a token for.
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
    """Tell whether naming its role says all of a token."""
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
    found = (_token(entries, place, special=not marked, marked=marked) for place in entries.values)
    return [token for token in found if token is not None]


def _token(
    table: Fields, key: str, *, special: bool = False, marked: bool = True
) -> AddedToken | None:
    """Read a special token: a text, or an object with how it is found."""
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
