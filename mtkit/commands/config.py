"""``mtkit config``: show and set the defaults."""

from __future__ import annotations

import sys

from mtkit.commands.command import Command
from mtkit.commands.options import Option

OPTIONS = {
    "key": Option("", "tokenizer or model.", "KEY", values=("tokenizer", "model")),
    "value": Option("", "Path or name.", "VALUE"),
    "unset": Option("--unset", "Remove the setting."),
}


def config(
    key: str | None = None,
    value: str | None = None,
    unset: bool = False,
    as_json: bool = False,
) -> None:
    """Show or set the default tokenizer and model.

    On a terminal, it also shows where each comes from: an environment variable (MTKIT_TOKENIZER,
    MTKIT_MODEL), the configuration file, or mtkit itself.

    \b
    Examples:
      mtkit config
      mtkit config tokenizer ~/models/qwen3/tokenizer.json
    """
    import os

    from mtkit.commands import output
    from mtkit.errors import UsageError
    from mtkit.sources import config as settings

    if value is not None or unset:
        if key is None or (value is not None and unset):
            raise UsageError("give one setting, and a value or --unset")
        is_path = value is not None and os.path.exists(os.path.expanduser(value))
        settings.write(key, os.path.abspath(os.path.expanduser(str(value))) if is_path else value)
        if value is not None and not is_path:
            output.warn(value, ["does not exist yet; saved anyway"])
        return
    if key is not None and key not in settings.KEYS:
        raise UsageError(f"there is no setting {key!r}", hint=f"known: {', '.join(settings.KEYS)}")
    values = {name: settings.find(name)[0] for name in settings.KEYS if key in (None, name)}
    if as_json:
        document = {"schema": "mtkit.config/1", "path": settings.path(), "settings": values}
        output.write_json(document)
    elif key is not None:
        sys.stdout.write((values[key] or "") + "\n")
    elif output.is_terminal():
        _show(values)
    else:
        for name, text in values.items():
            sys.stdout.write(f"{name}\t{text or ''}\n")


command = Command(config, OPTIONS)


def _show(values: dict[str, str | None]) -> None:
    from mtkit.commands.terminal import Screen, part
    from mtkit.sources import config as settings

    screen = Screen()
    rows = [
        (name, value or "the one that ships with mtkit", settings.find(name)[1])
        for name, value in values.items()
    ]
    screen.table(("setting", "in force", "from:name"), rows, elastic=1)
    where = part("name", settings.path())
    screen.line(part("hint", "mtkit config KEY VALUE"), " sets one in ", where)
