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
    table = [(name, hasattr(module, "write"), module.TITLE) for name, module in modules.items()]
    table += [(name, True, title) for name, title in FOLDERS.items()]
    if as_json:
        rows = [
            {
                "name": name, "read": True, "write": writes, "title": title,
                "holds": "model" if name in FOLDERS else "tokenizer",
            }
            for name, writes, title in table
        ]  # fmt: skip
        output.write_json({"schema": "mtkit.formats/1", "formats": rows})
        return
    lines = [(name, "read", "write" if writes else "-", title) for name, writes, title in table]
    if not output.is_terminal():
        output.write_rows(lines)
        return
    from mtkit.commands.terminal import Screen

    Screen().table(("name:name", "read:good", "write:good", "what it is"), lines, elastic=3)


command = Command(formats)
