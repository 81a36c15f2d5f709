"""``mtkit encode`` where its line is not a plain one: typer reads it."""

from __future__ import annotations

from mtkit.commands.application import application
from mtkit.commands.encode import run
from mtkit.commands.options import ENCODE_OPTIONS

app = application()
app.command("encode", options=ENCODE_OPTIONS)(run)
