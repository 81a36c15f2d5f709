"""``mtkit completion``: print the completion script of a shell."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mtkit.errors import UsageError

SHELLS = ("bash", "zsh", "fish")

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    no_args_is_help=False,
)


@app.command()
def completion(
    shell: Annotated[
        str,
        typer.Argument(metavar="bash|zsh|fish", help="Shell.", autocompletion=lambda: [*SHELLS]),
    ],
) -> None:
    """Print a shell completion script.

    \b
    Examples:
      eval "$(mtkit completion bash)"
      mtkit completion fish > ~/.config/fish/completions/mtkit.fish
    """
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise UsageError(f"{shell!r} is not a supported shell", hint=f"one of {', '.join(SHELLS)}")
    script = get_completion_script(prog_name="mtkit", complete_var="_MTKIT_COMPLETE", shell=shell)
    sys.stdout.write(script.strip() + "\n")
