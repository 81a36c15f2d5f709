"""The commands: one module each, whose ``command`` it is; imported only when it runs.

A command parses its options, makes one call of the library and renders the answer. It never
parses bytes and holds no algorithm.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.commands.command import Command, Group


def load_command(module: str) -> Command | Group:
    """Return the command of a module."""
    # importlib's own function would first import importlib
    command: Command | Group = __import__(module, fromlist=("command",)).command
    return command
