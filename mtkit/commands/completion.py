"""``mtkit completion``: print the completion script of a shell."""

from __future__ import annotations

import sys

from mtkit.commands.command import Command
from mtkit.commands.options import Option
from mtkit.errors import UsageError

SHELLS = ("bash", "zsh", "fish")

OPTIONS = {
    "shell": Option("", "Shell.", "bash|zsh|fish", values=SHELLS),
}


def completion(
    shell: str,
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


command = Command(completion, OPTIONS)
