"""``mtkit edit``: a GGUF with other metadata, as a new file or in its place."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import typer

from mtkit.commands import output
from mtkit.commands.application import application
from mtkit.commands.inputs import find_gguf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtkit.gguf import GgufFile
    from mtkit.gguf.draft import Draft
    from mtkit.gguf.in_place import InPlace
    from mtkit.gguf.writer import Key

    Change = tuple[str, str, str, str]
    """What was done, to which key or tensor, the value before, the value after."""

app = application()


@app.command(also={"chat_template": "--chat-template --template"})
def edit(
    file: Annotated[str, typer.Argument(metavar="FILE", help="GGUF file.")],
    out: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="File to write.")
    ] = None,
    set_keys: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=TYPE:VALUE", help="Set a key."),
    ] = None,
    set_files: Annotated[
        list[str] | None,
        typer.Option("--set-file", metavar="KEY=FILE", help="Set a key to the text of a file."),
    ] = None,
    chat_template: Annotated[
        str | None,
        typer.Option("--chat-template-file", metavar="FILE", help="Replace the chat template."),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Remove a key.")
    ] = None,
    rename_key: Annotated[
        list[str] | None, typer.Option("--rename-key", metavar="OLD=NEW", help="Rename a key.")
    ] = None,
    rename_tensor: Annotated[
        list[str] | None,
        typer.Option("--rename-tensor", metavar="OLD=NEW", help="Rename a tensor."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", metavar="NAME", help="Replace the tokenizer with this one."),
    ] = None,
    allow_loss: list[str] | None = None,
    in_place: Annotated[
        bool,
        typer.Option("--in-place", help="Edit FILE itself, if the new header fits."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes without writing.")
    ] = False,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Change metadata, tensor names or the tokenizer of a GGUF; tensor data stays the same.

    TYPE is u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool or string; TYPE[] is an array, written as
    JSON. Without TYPE, an existing key keeps its type. The new file is written atomically.
    --in-place rewrites only the header, however large the model is; the padding before the data
    absorbs a few bytes, and larger changes are refused. The next mtkit edit of the file completes
    an interrupted edit from FILE.journal. --tokenizer replaces the tokenizer after checking that
    the edited file gives the same ids as the new tokenizer. For a sharded model, name the first
    shard: the output is the merged model; if -o has the name of a shard (NAME-00001-of-00003.gguf),
    only that shard is written. Piped output has a row per change: what, key or tensor, before,
    after.

    \b
    Examples:
      mtkit edit model.gguf --set general.name=renamed -o new.gguf
      mtkit edit model.gguf --chat-template-file chat.jinja -o new.gguf
      mtkit edit model.gguf --set tokenizer.ggml.eos_token_id=2 --in-place
      mtkit edit model.gguf --tokenizer tokenizer.json -o new.gguf
      mtkit edit model.gguf --unset general.url --set llama.vocab_size=u32:32000 --dry-run
    """
    from contextlib import nullcontext

    from mtkit.errors import UsageError
    from mtkit.gguf import open_gguf, shards
    from mtkit.gguf.draft import Draft
    from mtkit.gguf.file import is_edit_unfinished
    from mtkit.gguf.in_place import InPlace
    from mtkit.gguf.shards import join_shards

    pairs = zip(_FORMS, (set_keys, set_files, rename_key, rename_tensor), strict=True)
    named = [_halves(text, option) for option, texts in pairs for text in texts or ()]
    no_changes = UsageError("no changes given", hint="add --set KEY=VALUE")
    if not (named or unset or tokenizer or chat_template or in_place):
        raise no_changes
    if in_place and (out is not None or file == "-"):
        raise UsageError("--in-place edits the file itself", hint="omit -o")
    if not in_place and (out in ("", "-") or (out is None and not dry_run)):
        raise UsageError("no output file", hint="add -o NEW.gguf, --in-place or --dry-run")
    file = file if in_place else find_gguf(file)
    interrupted = file != "-" and is_edit_unfinished(file)
    if interrupted and dry_run:
        hint = "mtkit edit FILE --in-place finishes it"
        raise UsageError("an earlier edit was interrupted", source=file, hint=hint)
    with InPlace(file) if interrupted or (in_place and not dry_run) else nullcontext() as place:
        source = open_gguf(file)
        if not in_place and shards.is_whole_model(source, out):
            source = join_shards(source)
        draft = Draft.of(source)
        steps: list[tuple[Sequence[str] | None, Callable[[GgufFile, Draft, str], list[Change]]]] = [
            ([tokenizer] if tokenizer else None, partial(_tokenizer, allow_loss or ())),
            (rename_key, _rename_key),
            (rename_tensor, _rename_tensor),
            (unset, _unset),
            (set_keys, _set),
            (set_files, _set_file),
            ([chat_template] if chat_template else None, _set_template),
        ]
        changes: list[Change] = [("finished", "an edit that was cut short", "", "")] * interrupted
        for texts, step in steps:
            changes += [one for text in texts or () for one in step(source, draft, text)]
        if not changes and not tokenizer:
            raise no_changes
        _write(source, draft, place, out, in_place=in_place, dry_run=dry_run, force=force)
    written = None if dry_run else file if in_place else out
    if as_json:
        rows = [dict(zip(("what", "name", "before", "after"), one, strict=True)) for one in changes]
        output.write_json({"schema": "mtkit.edit/1", "written": written, "changes": rows})
    elif output.is_terminal():
        from mtkit.commands.terminal import Screen, part

        screen = Screen()
        if written:
            screen.verdict(part("name", written), good=True)
        screen.table(("change", "name:name", "before", "after"), map(_short, changes), elastic=3)
    else:
        output.write_rows(changes)


def _write(
    source: GgufFile,
    draft: Draft,
    place: InPlace | None,
    out: str | None,
    *,
    in_place: bool,
    dry_run: bool,
    force: bool,
) -> None:
    from mtkit.commands.new_files import warn_of_dropped_parts
    from mtkit.gguf import shards
    from mtkit.gguf.in_place import check_header

    if in_place:
        check_header(source, draft)
        if place is not None:
            place.write(source, draft)
        return
    chunks = draft.chunks()
    warn_of_dropped_parts(source)
    if out is not None:
        output.warn(out, [*shards.shard_oddities(source, out)])
    if out is not None and not dry_run:
        from mtkit.gguf.in_place import write_ggufs

        write_ggufs({out: chunks}, force=force)


def _short(change: Change) -> Sequence[str]:
    return [text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…" for text in change]


_SHOWN = 200


def _halves(text: str, option: str) -> tuple[str, str]:
    from mtkit.errors import UsageError

    left, sign, right = text.partition("=")
    if sign and not left:
        what = f"{text!r} has no name in front of ="
        raise UsageError(what, field=option, hint=f"{option} NAME={right}")
    if not sign or (not right and option != "--set"):
        what, form = _FORMS[option]
        raise UsageError(f"no {what} for {left}", field=option, hint=f"{option} {left}={form}")
    return left, right


_FORMS = {
    "--set": ("value", "VALUE"),
    "--set-file": ("file", "FILE"),
    "--rename-key": ("new name", "NEW"),
    "--rename-tensor": ("new name", "NEW"),
}
"""Option -> what follows its =, and how the help writes it."""


def _shown(source: GgufFile, key: str) -> str:
    from mtkit.inspection.document import format_short

    if key not in source.metadata:
        return ""
    return format_short(source.metadata[key], source.metadata.type_name(key))


def _set(source: GgufFile, draft: Draft, text: str) -> list[Change]:
    from mtkit.errors import UsageError
    from mtkit.gguf.draft import parse_key
    from mtkit.inspection.document import format_short

    name, value = _halves(text, "--set")
    if value.startswith("@") and os.path.isfile(value[1:]):
        line = f"use --set-file {text.replace('=@', '=', 1)}"
        hint = f"{line}; string:{value} sets these characters"
        raise UsageError("is the name of a file", field=f"--set {name}", hint=hint)
    key = parse_key(name, value, source.metadata)
    draft.set(key)
    return [_changed(source, key, format_short(key.value, key.type))]


def _set_file(source: GgufFile, draft: Draft, text: str) -> list[Change]:
    from mtkit.base.binary import Source
    from mtkit.base.escape import shown
    from mtkit.errors import UsageError
    from mtkit.gguf.writer import Key

    name, path = _halves(text, "--set-file")
    value = bytes(Source.open(path.removeprefix("@")).data)
    if name in source.metadata and source.metadata.type_name(name) != "string":
        what = f"is of type {source.metadata.type_name(name)}; a file's text is a string"
        raise UsageError(what, field=shown(name), hint="--unset it first, or use --set")
    draft.set(Key(name, "string", value))
    return [("set", name, _shown(source, name), f"{path}, {len(value)} bytes")]


def _set_template(source: GgufFile, draft: Draft, text: str) -> list[Change]:
    """Set the chat template to a file's text, or to the text itself, as gguf-py's tools do."""
    name = "tokenizer.chat_template"
    is_text = any(mark in text for mark in ("{{", "{%")) and not os.path.exists(text)
    return (
        _set(source, draft, f"{name}=string:{text}")
        if is_text
        else _set_file(source, draft, f"{name}={text}")
    )


def _changed(source: GgufFile, key: Key, after: str) -> Change:
    """Return what was set; of a key whose type changes both types, too."""
    before = _shown(source, key.name)
    kind = source.metadata.type_name(key.name) if key.name in source.metadata else key.type
    if kind != key.type:
        before, after = f"{kind}: {before}", f"{key.type}: {after}"
    return "set", key.name, before, after


def _unset(source: GgufFile, draft: Draft, text: str) -> list[Change]:
    draft.unset(text)
    return [("unset", text, _shown(source, text), "")]


def _rename_key(_: GgufFile, draft: Draft, text: str) -> list[Change]:
    old, new = _halves(text, "--rename-key")
    draft.rename_key(old, new)
    return [("rename key", old, old, new)]


def _rename_tensor(_: GgufFile, draft: Draft, text: str) -> list[Change]:
    old, new = _halves(text, "--rename-tensor")
    draft.rename_tensor(old, new)
    return [("rename tensor", old, old, new)]


def _tokenizer(
    allow_loss: Sequence[str], source: GgufFile, draft: Draft, path: str
) -> list[Change]:
    from mtkit.commands.application import parse_loss_codes
    from mtkit.commands.inputs import load_tokenizer
    from mtkit.conversion.model_keys import replace_vocabulary
    from mtkit.gguf.writer import Key, key_bytes
    from mtkit.inspection.document import format_short

    old = dict(draft.keys)
    made = replace_vocabulary(draft, source, load_tokenizer(path), parse_loss_codes(allow_loss))
    changes = [("unset", name, _shown(source, name), "") for name in old if name not in made]
    for name, key in draft.keys.items():
        if isinstance(key, Key):
            before = old.get(name)
            if isinstance(before, Key) or before is None or key_bytes(key) != before.data:
                changes.append(_changed(source, key, format_short(made[name], key.type)))
    return changes
