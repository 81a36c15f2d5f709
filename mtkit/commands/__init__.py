"""The commands: one module each, with a typer ``app``; imported only when it runs.

A command parses its options, makes one call of the library and renders the answer. It never
parses bytes and holds no algorithm.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def command_tree(commands: Mapping[str, tuple[str, str]], typer: Any) -> Any:
    """Return one typer application with every command, as shell completion needs it."""
    from importlib import import_module

    root = typer.Typer(add_completion=True, rich_markup_mode=None)
    for name, (module_name, text) in commands.items():
        app = import_module(module_name).app
        if len(app.registered_commands) == 1 and app.registered_callback is None:
            own = app.registered_commands[0]
            root.command(name, cls=own.cls, help=text)(own.callback)
        else:
            root.add_typer(app, name=name, help=text)
    return root
