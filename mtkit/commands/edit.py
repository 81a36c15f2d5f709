"""``mtkit edit``: a GGUF with other metadata, as a new file or in its place."""

from __future__ import annotations

import os
from functools import partial

from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_gguf
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtkit.conversion.edit import Change, GgufEdit


OPTIONS = {
    "set_keys": Option("--set", "Set a key.", "KEY=[TYPE:]VALUE"),
    "set_files": Option("--set-file", "Set a key to the text of a file.", "KEY=FILE"),
    "chat_template": Option(
        "--chat-template-file", "Replace the chat template.", "FILE", "--chat-template --template"
    ),
    "special_tokens": Option(
        "--special-token",
        "Give a token a role: bos, eos, eot, eom, unk, sep, pad, mask, fim_pre …",
        "ROLE TEXT",
    ),
    "unset": Option("--unset", "Remove a key.", "KEY"),
    "rename_key": Option("--rename-key", "Rename a key.", "OLD=NEW"),
    "rename_tensor": Option("--rename-tensor", "Rename a tensor.", "OLD=NEW"),
    "tokenizer": Option("--tokenizer", "Replace the tokenizer with this one.", "NAME"),
    "in_place": Option("--in-place", "Edit FILE itself, if the new header fits."),
    "dry_run": Option("--dry-run", "Show the changes without writing."),
}


def edit(
    file: str,
    out: str | None = None,
    set_keys: list[str] | None = None,
    set_files: list[str] | None = None,
    chat_template: str | None = None,
    special_tokens: list[tuple[str, str]] | None = None,
    unset: list[str] | None = None,
    rename_key: list[str] | None = None,
    rename_tensor: list[str] | None = None,
    tokenizer: str | None = None,
    allow_loss: list[str] | None = None,
    in_place: bool = False,
    dry_run: bool = False,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Change metadata, tensor names or the tokenizer of a GGUF; tensor data stays the same.

    TYPE is u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool or string; TYPE[] is an array, written as
    JSON. Without TYPE, an existing key keeps its type, and a new one gets the type that it has in
    every file, if that is known. The new file is written atomically.
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
      mtkit edit model.gguf --special-token eot "<|im_end|>" -o new.gguf
      mtkit edit model.gguf --tokenizer tokenizer.json -o new.gguf
      mtkit edit model.gguf --unset general.url --set llama.vocab_size=u32:32000 --dry-run
    """
    from mtkit.conversion.edit import GgufEdit
    from mtkit.errors import UsageError

    pairs = {
        "--set": set_keys,
        "--set-file": set_files,
        "--rename-key": rename_key,
        "--rename-tensor": rename_tensor,
    }
    halves = [_halves(text, option) for option, texts in pairs.items() for text in texts or ()]
    no_changes = UsageError("no changes given", hint="add --set KEY=VALUE")
    if not (halves or unset or tokenizer or chat_template or special_tokens or in_place):
        raise no_changes
    if in_place and (out is not None or file == "-"):
        raise UsageError("--in-place edits the file itself", hint="omit -o")
    if not in_place and (out in ("", "-") or (out is None and not dry_run)):
        raise UsageError("no output file", hint="add -o NEW.gguf, --in-place or --dry-run")
    steps = {
        **pairs,
        "--tokenizer": [tokenizer] if tokenizer else None,
        "--unset": unset,
        "--chat-template-file": [chat_template] if chat_template else None,
    }
    path = file if in_place else find_gguf(file)
    with GgufEdit(path, out, in_place=in_place, dry_run=dry_run) as editing:
        for option, step in _STEPS.items():
            for text in steps[option] or ():
                step(editing, text, allow_loss or ())
        for role, text in special_tokens or ():
            editing.set_special_token(role, text)
        if not editing.changes and not tokenizer:
            raise no_changes
        if not in_place:
            _warn(editing)
        target = editing.write(force=force)
    output.warn(file, editing.warnings)
    changes = editing.changes
    output.write_report(
        changes,
        as_json=as_json,
        document=partial(_document, target),
        screen=partial(_show, target),
        rows=partial(map, _cells),
    )


command = Command(edit, OPTIONS)


def _document(target: str | None, changes: Sequence[Change]) -> dict[str, object]:
    names = ("what", "name", "before", "after")
    rows = [dict(zip(names, change, strict=True)) for change in changes]
    return {"schema": "mtkit.edit/1", "written": target, "changes": rows}


def _show(target: str | None, changes: Sequence[Change]) -> None:
    from mtkit.commands.terminal import VALUE_LINES, Screen, part

    screen = Screen()
    if target:
        screen.verdict(part("name", target), good=True)
    heads = ("change", "name:name", "before", "after")
    screen.table(heads, map(_short, changes), elastic=(2, 3), most_lines=VALUE_LINES)


def _cells(change: Change) -> Sequence[str]:
    """Return a change with its values as they are shown, escaped once."""
    what, name, *values = change
    return [what, name, *values]


def _short(change: Change) -> Sequence[str]:
    return [
        text if len(text) <= _MOST_LETTERS else type(text)(f"{text[:_MOST_LETTERS]}…")
        for text in _cells(change)
    ]


_MOST_LETTERS = 200


def _warn(editing: GgufEdit) -> None:
    """Say what a new file does not have, or why llama.cpp will not find it."""
    from mtkit.commands.new_files import warn_of_dropped_parts
    from mtkit.gguf.shards import shard_oddities

    editing.draft.chunks()  # an error here comes without the warnings
    warn_of_dropped_parts(editing.source)
    if editing.out is not None:
        output.warn(editing.out, [*shard_oddities(editing.source, editing.out)])


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


def _replace_tokenizer(editing: GgufEdit, name: str, allow_loss: Sequence[str]) -> None:
    from mtkit.commands.inputs import load_tokenizer
    from mtkit.commands.options import parse_loss_codes

    editing.replace_tokenizer(load_tokenizer(name), parse_loss_codes(allow_loss))


def _rename_key(editing: GgufEdit, text: str, _: Sequence[str]) -> None:
    editing.rename_key(*_halves(text, "--rename-key"))


def _rename_tensor(editing: GgufEdit, text: str, _: Sequence[str]) -> None:
    editing.rename_tensor(*_halves(text, "--rename-tensor"))


def _unset(editing: GgufEdit, name: str, _: Sequence[str]) -> None:
    editing.unset(name)


def _set(editing: GgufEdit, text: str, _: Sequence[str]) -> None:
    from mtkit.errors import UsageError

    name, value = _halves(text, "--set")
    if value.startswith("@") and os.path.isfile(value[1:]):
        line = f"use --set-file {text.replace('=@', '=', 1)}"
        hint = f"{line}; string:{value} sets these characters"
        raise UsageError("is the name of a file", field=f"--set {name}", hint=hint)
    editing.set(name, value)


def _set_file(editing: GgufEdit, text: str, _: Sequence[str]) -> None:
    editing.set_file(*_halves(text, "--set-file"))


def _set_template(editing: GgufEdit, text: str, _: Sequence[str]) -> None:
    """Set the chat template to a file's text, or to the text itself, as gguf-py's tools do."""
    name = "tokenizer.chat_template"
    if any(mark in text for mark in ("{{", "{%")) and not os.path.exists(text):
        editing.set(name, f"string:{text}")
    else:
        editing.set_file(name, text)


_STEPS: dict[str, Callable[[GgufEdit, str, Sequence[str]], None]] = {
    "--tokenizer": _replace_tokenizer,
    "--rename-key": _rename_key,
    "--rename-tensor": _rename_tensor,
    "--unset": _unset,
    "--set": _set,
    "--set-file": _set_file,
    "--chat-template-file": _set_template,
}
"""Option -> what it does, in the order in which the steps are made."""
