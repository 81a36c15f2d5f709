"""``mtkit encode`` where its line is not a plain one: typer reads it."""

from __future__ import annotations

from mtkit.commands.encode.options import OPTIONS
from mtkit.commands.encode.run import run
from mtkit.commands.options import application

app = application()
app.command("encode", options=OPTIONS)(run)
