"""``mtkit formats``: what can be read and written, asked of the format modules."""

from __future__ import annotations

from mtkit.commands.command import Command


def formats(
    as_json: bool = False,
) -> None:
    """List the formats that mtkit reads and writes.

    Columns: name, read or write, description.

    \b
    Examples:
      mtkit formats
      mtkit formats --json
    """
    from mtkit.commands import output
    from mtkit.formats import FOLDERS, FORMATS, get_format

    modules = {name: get_format(name) for name in FORMATS}
    found = [(name, hasattr(one, "write"), one.TITLE) for name, one in modules.items()]
    found += [(name, True, title) for name, title in FOLDERS.items()]
    if as_json:
        rows = [
            {
                "name": name, "read": True, "write": writes, "title": title,
                "holds": "model" if name in FOLDERS else "tokenizer",
            }
            for name, writes, title in found
        ]  # fmt: skip
        output.write_json({"schema": "mtkit.formats/1", "formats": rows})
        return
    shown = [(name, "read", "write" if writes else "-", title) for name, writes, title in found]
    if not output.is_terminal():
        output.write_rows(shown)
        return
    from mtkit.commands.terminal import Screen

    Screen().table(("name:name", "read:good", "write:good", "what it is"), shown, elastic=3)


command = Command(formats)
