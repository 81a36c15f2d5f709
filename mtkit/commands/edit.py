"""``mtkit edit``: a GGUF with other metadata, as a new file."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands import output
from mtkit.commands.options import AS_JSON, application

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtkit.gguf import GgufFile
    from mtkit.gguf.draft import Draft
    from mtkit.gguf.writer import Key

    Change = tuple[str, str, str, str]
    """What was done, to which key or tensor, the value before, the value after."""

app = application()


@app.command()
def edit(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A GGUF.")],
    out: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="The new file.")
    ] = None,
    set_keys: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=TYPE:VALUE", help="Give a key a value."),
    ] = None,
    set_files: Annotated[
        list[str] | None,
        typer.Option("--set-file", metavar="KEY=FILE", help="Give a key a file's text."),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Drop a key.")
    ] = None,
    rename_key: Annotated[
        list[str] | None, typer.Option("--rename-key", metavar="OLD=NEW", help="Rename a key.")
    ] = None,
    rename_tensor: Annotated[
        list[str] | None,
        typer.Option("--rename-tensor", metavar="OLD=NEW", help="Rename a tensor."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes and write nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the new file.")] = False,
    as_json: AS_JSON = False,
) -> None:
    """Write a GGUF with other metadata or tensor names; data and all other keys stay as they are.

    TYPE is u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool or string, with [] behind it an array, given
    as JSON; a key that is there keeps its type where none is named. The new file appears whole or
    not at all. In a pipe a row for each change: what, key or tensor, before, after.

    \b
    Examples:
      mtkit edit model.gguf --set general.name=renamed -o new.gguf
      mtkit edit model.gguf --set-file tokenizer.chat_template=chat.jinja -o new.gguf
      mtkit edit model.gguf --unset general.url --set llama.vocab_size=u32:32000 --dry-run
    """
    from mtkit.errors import UsageError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.draft import Draft

    if out in ("", "-") or (out is None and not dry_run):
        raise UsageError("where is the new file to be?", hint="-o NEW.gguf, or --dry-run")
    source = open_gguf(file)
    draft = Draft.of(source)
    steps: list[tuple[Sequence[str] | None, Callable[[GgufFile, Draft, str], Change]]] = [
        (rename_key, _rename_key),
        (rename_tensor, _rename_tensor),
        (unset, _unset),
        (set_keys, _set),
        (set_files, _set_file),
    ]
    changes = [step(source, draft, text) for texts, step in steps for text in texts or ()]
    if not changes:
        raise UsageError("nothing is to be changed", hint="--set KEY=TYPE:VALUE")
    chunks = draft.chunks()
    if out is not None and not dry_run:
        from mtkit.base.binary import write_files

        write_files({out: chunks}, force=force)
    written = out if not dry_run else None
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


def _short(change: Change) -> Sequence[str]:
    return [text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…" for text in change]


_SHOWN = 200


def _halves(text: str, option: str) -> tuple[str, str]:
    from mtkit.errors import UsageError

    left, sign, right = text.partition("=")
    if not sign or not left:
        what = f"{text!r} has no key in front of =" if sign else f"{text!r} has no ="
        raise UsageError(what, hint=f"see {option} in mtkit edit --help")
    return left, right


def _shown(source: GgufFile, key: str) -> str:
    from mtkit.commands.values import shortened

    if key not in source.metadata:
        return ""
    return shortened(source.metadata[key], source.metadata.type_name(key))


def _set(source: GgufFile, draft: Draft, text: str) -> Change:
    from mtkit.gguf.typed_values import typed

    name, value = _halves(text, "--set")
    key = typed(name, value, source.metadata)
    draft.set(key)
    return _changed(source, key, output.cell(str(key.value)))


def _set_file(source: GgufFile, draft: Draft, text: str) -> Change:
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
    return "set", name, _shown(source, name), f"{path}, {len(value)} bytes"


def _changed(source: GgufFile, key: Key, after: str) -> Change:
    """Return what was set; of a key whose type changes both types, too."""
    before = _shown(source, key.name)
    kind = source.metadata.type_name(key.name) if key.name in source.metadata else key.type
    if kind != key.type:
        before, after = f"{kind}: {before}", f"{key.type}: {after}"
    return "set", key.name, before, after


def _unset(source: GgufFile, draft: Draft, text: str) -> Change:
    draft.unset(text)
    return "unset", text, _shown(source, text), ""


def _rename_key(_: GgufFile, draft: Draft, text: str) -> Change:
    old, new = _halves(text, "--rename-key")
    draft.rename_key(old, new)
    return "rename key", old, old, new


def _rename_tensor(_: GgufFile, draft: Draft, text: str) -> Change:
    old, new = _halves(text, "--rename-tensor")
    draft.rename_tensor(old, new)
    return "rename tensor", old, old, new
