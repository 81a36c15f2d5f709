"""The settings of a class of transformers that builds its tokenizer from vocabulary files.

tokenizer_config.json names the class, its switches and its special tokens, in
``added_tokens_decoder`` also the other added tokens. Only where it has none of these,
special_tokens_map.json and added_tokens.json count. Ids in these files are not used: a token has
the id that the vocabulary has for its text, else the next free one, counted from the number of
tokens.

Source: huggingface/transformers 5, tokenization_utils_base.py (``_from_pretrained``, ``__init__``),
tokenization_utils_tokenizers.py (``TokenizersBackend``); huggingface/tokenizers 0.23,
tokenizer/added_vocabulary.rs (``add_tokens``).
"""

from __future__ import annotations

from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.added_tokens import CONFIG, FLAGS, ROLES, SPECIAL, numbered, token_form
from mtkit.formats.json_fields import Fields, check_plain, encode, parse, shown
from mtkit.spec import AddedToken, AddedTokens, SpecialIds, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, Literal

    from mtkit.base.binary import Source
    from mtkit.spec import TokenizerSpec

    Again = Literal["plain", "kept"] | None

ADDED = "added_tokens.json"
EXTRA, ADDITIONAL = "extra_special_tokens", "additional_special_tokens"
_BUILDS = ("init_inputs", "vocab", "merges", "tokenizer_object", "post_processor")
"""Settings that would take the place of the vocabulary files."""
GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes that build whatever a tokenizer.json says; they say nothing of the files around it."""


class Settings:
    """The files beside a vocabulary.

    Attributes:
        config: tokenizer_config.json, empty where there is none.
    """

    def __init__(self, source: Source, document: Iterable[AddedToken] | None = None) -> None:
        """Read them.

        Args:
            source: The vocabulary's file.
            document: The added tokens of a tokenizer.json that is the vocabulary, with the ids
                that it has for them.
        """
        self.config = _object(source, CONFIG)
        self._document = document
        self._has_document = source.beside("tokenizer.json") is not None
        self._decoder = "added_tokens_decoder" in self.config
        self._map = Fields({}, SPECIAL) if self._decoder else _object(source, SPECIAL)
        self._added = Fields({}, ADDED) if self._decoder else _object(source, ADDED)
        for key in _BUILDS:
            if self.config.values.get(key):
                raise UnsupportedError("would replace the files", field=self.config.path(key))

    def family(self, families: Mapping[str, str]) -> str | None:
        """Return what ``families`` has for the class that is named; None where none is.

        Raises:
            UnsupportedError: It has nothing.
        """
        name = self.config.optional_string("tokenizer_class")
        if name is None or (name in GENERIC and self._has_document):
            return None
        family = families.get(name.removesuffix("Fast"))
        if family is None:
            known = ", ".join(families)
            what = f"is {shown(name)}, which builds a different tokenizer from these files"
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

        Args:
            said: What the files name as special tokens.
            roles: What has a role, with those that the class names itself.
        """
        if self._decoder:
            table = self.config.object("added_tokens_decoder")
            for key in sorted(table.values, key=lambda key: _number(key, table)):
                token = table.object(key)
                special = encode(token.string("content"), table.where) in roles
                yield _from_object(token, special=False), _from_object(token, special=special)
            return
        listed: dict[int, AddedToken] = {}
        for text in sorted(self._added.values, key=self._added.integer):
            content = encode(text, ADDED)
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
            named: From ``named``.
            ids: The vocabulary.
            again: The class adds its special tokens once more: "plain" resets how they are found,
                "kept" does not.
        """
        tokens = self.tokens(named, again=again)
        by_id, numbers = numbered(tokens, ids, len(ids))
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
            named: From ``named``.
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
        """Tell whether the files say which special tokens have no role.

        Raises:
            UnsupportedError: They say it where a class adds its own to them.
        """
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
        spec: What is written.
        roles: Ids of the roles, with those that the class needs.
        defaults: Role -> text, for those that the class has a token for.
        ids: The vocabulary as written.
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
    value = {} if data is None else parse(data, name)
    check_plain(value, name)
    return Fields(value, name)


def _number(key: str, table: Fields) -> int:
    if not (key.isascii() and key.isdigit() and len(key) < 10):
        raise FormatError(f"has the key {shown(key)}, not an id", field=table.where)
    return int(key)


def _special(text: str, where: str) -> AddedToken:
    return AddedToken(-1, encode(text, where), special=True)


def _tokens(table: Fields, key: str, *, marked: bool = True) -> list[AddedToken]:
    items = table.items(key) if table.values.get(key) else []
    entries = Fields({f"{key}[{place}]": item for place, item in enumerate(items)}, table.where)
    found = (_token(entries, place, special=not marked, marked=marked) for place in entries.values)
    return [token for token in found if token is not None]


def _token(
    table: Fields, key: str, *, special: bool = False, marked: bool = True
) -> AddedToken | None:
    """Read a special token: a text, or an object with how it is found.

    Args:
        table: The object that it is a field of.
        key: Its name there.
        special: Whether it is special in any case.
        marked: Whether an object must say that it is a token.
    """
    value = table.get(key)
    if value is None:
        return None
    if type(value) is str:
        return _special(value, table.path(key))
    if type(value) is not dict or (marked and value.get("__type") != "AddedToken"):
        raise table.wrong(key, "a token")
    return _from_object(table.object(key), special=special)


def _from_object(token: Fields, *, special: bool) -> AddedToken:
    flags = {flag: token.boolean(flag, False) for flag in FLAGS}
    flags["special"] |= special
    flags["normalized"] = token.boolean("normalized", not flags["special"])
    return AddedToken(-1, encode(token.string("content"), token.path("content")), **flags)
