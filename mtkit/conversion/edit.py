"""An edit of a GGUF: its keys, names of tensors and tokenizer; what each step changes is listed.

The steps work on a draft. It is written as a new file, or in the place of the old one, which stays
locked for that long; an edit that was cut short is finished first.
"""

from __future__ import annotations

from mtkit.architectures.tensor_match import TOKENS
from mtkit.base.escape import quoted, shown
from mtkit.base.process import Closeable
from mtkit.conversion.key_types import known_type, role_key
from mtkit.errors import UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.arrays import GgufArray
from mtkit.gguf.draft import Draft, parse_key
from mtkit.gguf.file import is_edit_unfinished
from mtkit.gguf.in_place import InPlace, check_header, write_ggufs
from mtkit.gguf.shards import is_whole_model, join_shards
from mtkit.gguf.writer import Key, key_bytes
from mtkit.inspection.document import format_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from mtkit.tokenizer.tokenizer import Tokenizer

    Change = tuple[str, str, str, str]
    """What was done, to which key or tensor, the value before, the value after."""


TEMPLATE = "tokenizer.chat_template"
"""Beginning of the keys of chat templates."""


class GgufEdit(Closeable):
    """A GGUF that is being edited.

    Attributes:
        source: The file as it was; of a set of shards the whole model, unless one alone is edited.
        changes: What the steps did so far.
        warnings: What is odd about the new values.
    """

    def __init__(
        self, path: str, out: str | None = None, *, in_place: bool = False, dry_run: bool = False
    ) -> None:
        """Open a file; without a dry run, lock and repair what is edited in its place."""
        is_interrupted = path != "-" and is_edit_unfinished(path)
        if is_interrupted and dry_run:
            hint = "mtkit edit FILE --in-place finishes it"
            raise UsageError("an earlier edit was interrupted", source=path, hint=hint)
        self.path, self.out, self.in_place, self.dry_run = path, out, in_place, dry_run
        is_locked = is_interrupted or (in_place and not dry_run)
        self._place = InPlace(path) if is_locked else None
        self.changes: list[Change] = []
        self.warnings: list[str] = []
        if is_interrupted:
            self.changes.append(("finished", "an edit that was cut short", "", ""))
        try:
            file = open_gguf(path)
            is_joined = not in_place and is_whole_model(file, out)
            self.source = join_shards(file) if is_joined else file
            self.draft = Draft.of(self.source)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unlock the file."""
        if self._place is not None:
            self._place.close()

    def set(self, name: str, text: str) -> None:
        """Set a key to a value as ``parse_key`` reads it."""
        metadata = self.source.metadata
        usual = known_type(name, metadata.get("general.architecture"))
        key = parse_key(name, text, metadata, usual)
        self.draft.set(key)
        self._list(key, format_short(key.value, key.type))
        self._check_template(name, key.value)

    def set_special_token(self, role: str, text: str) -> None:
        """Let a token of the vocabulary have a role: its id becomes that of eos, eot, fim_pre …."""
        name = role_key(role)
        key = Key(name, "u32", self._token_id(text))
        self.draft.set(key)
        self._list(key, f"{key.value} {shown(text)}")

    def _token_id(self, text: str) -> int:
        tokens = self._tokens()
        raw = text.encode("utf-8", "surrogateescape")
        ids = [number for number, piece in enumerate(tokens) if piece == raw]
        if len(ids) == 1:
            return ids[0]
        if ids:
            what = f"{quoted(text)} is {len(ids)} tokens: {', '.join(map(str, ids[:3]))}"
            raise UsageError(what, field="--special-token", hint="--set KEY=ID sets one of them")
        from difflib import get_close_matches

        texts = (piece.decode("utf-8", "replace") for piece in tokens if piece[:1] in b"<[")
        near = get_close_matches(text, texts, n=1)
        hint = f"is it {shown(near[0])}?" if near else "mtkit token -t FILE lists the tokens"
        raise UsageError(f"{quoted(text)} is no token", field="--special-token", hint=hint)

    def _tokens(self) -> list[bytes]:
        key = self.draft.keys.get(TOKENS)
        if isinstance(key, Key):  # of a tokenizer that was replaced
            values = key.value.raws() if isinstance(key.value, GgufArray) else key.value
            return [
                value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
                for value in values
            ]
        array = self.source.metadata.get(TOKENS)
        return list(array.raws()) if isinstance(array, GgufArray) else []

    def set_file(self, name: str, path: str) -> None:
        """Set a key to the text of a file."""
        from mtkit.base.binary import Source

        value = bytes(Source.open(path.removeprefix("@")).data)
        metadata = self.source.metadata
        if name in metadata and metadata.type_name(name) != "string":
            what = f"is of type {metadata.type_name(name)}; a file's text is a string"
            raise UsageError(what, field=shown(name), hint="--unset it first, or use --set")
        self.draft.set(Key(name, "string", value))
        self._check_template(name, value.decode("utf-8", "replace"))
        self.changes.append(("set", name, self._before(name), f"{path}, {len(value)} bytes"))

    def unset(self, name: str) -> None:
        """Remove a key."""
        self.draft.unset(name)
        self.changes.append(("unset", name, self._before(name), ""))

    def rename_key(self, old: str, new: str) -> None:
        """Give a key another name."""
        self.draft.rename_key(old, new)
        self.changes.append(("rename key", old, old, new))

    def rename_tensor(self, old: str, new: str) -> None:
        """Give a tensor another name."""
        self.draft.rename_tensor(old, new)
        self.changes.append(("rename tensor", old, old, new))

    def replace_tokenizer(self, tokenizer: Tokenizer, allow_loss: Collection[str]) -> None:
        """Replace the tokenizer, after checking that it gives the same ids from the draft."""
        from mtkit.conversion.model_keys import replace_vocabulary

        old = dict(self.draft.keys)
        new = replace_vocabulary(self.draft, self.source, tokenizer, allow_loss)
        gone = [name for name in old if name not in new]
        self.changes += [("unset", name, self._before(name), "") for name in gone]
        for name, key in self.draft.keys.items():
            if isinstance(key, Key):
                before = old.get(name)
                if isinstance(before, Key) or before is None or key_bytes(key) != before.data:
                    self._list(key, format_short(new[name], key.type))

    def write(self, *, force: bool = False) -> str | None:
        """Write the draft; return the path, or None of a dry run, which checks all the same."""
        if self.in_place:
            check_header(self.source, self.draft)
            if self._place is not None:
                self._place.write(self.source, self.draft)
        elif self.out is not None and not self.dry_run:
            write_ggufs({self.out: self.draft.chunks()}, force=force)
        else:
            self.draft.chunks()
        return None if self.dry_run else self.path if self.in_place else self.out

    def _check_template(self, name: str, text: object) -> None:
        """Keep what is wrong with a chat template that is set; it is parsed, not run."""
        if not name.startswith(TEMPLATE) or not isinstance(text, str):
            return
        from mtkit.chat.sandbox import syntax_fault

        fault = syntax_fault(text)
        if fault:
            self.warnings.append(f"{name} does not parse: {fault}")

    def _list(self, key: Key, after: str) -> None:
        """Add what was set to the changes; of a key whose type changes both types, too."""
        metadata, before = self.source.metadata, self._before(key.name)
        kind = metadata.type_name(key.name) if key.name in metadata else key.type
        if kind != key.type:
            before, after = f"{kind}: {before}", f"{key.type}: {after}"
        self.changes.append(("set", key.name, before, after))

    def _before(self, name: str) -> str:
        metadata = self.source.metadata
        return format_short(metadata[name], metadata.type_name(name)) if name in metadata else ""
