"""Drawn conversations with an agent, as clients of four APIs send them, in published templates.

Each conversation (tests/support/histories.py) is rendered as ``mtkit serve`` renders it. What is
refused, or lacks a text, is printed on one line; exit status 1.

    python -m tools.fuzz_histories --count 200 --seed 1 --templates shared/templates.tar.xz
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tarfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
histories: Any = importlib.import_module("histories")


class _Tokens:
    """What a prompt asks of a model."""

    bos, eos, add_bos, has_encoder, path = 0, 1, False, False, ""

    def piece(self, token_id: int, *, special: bool = False) -> bytes:  # noqa: ARG002  as a model
        """Return the text of a token."""
        return (b"<s>", b"</s>")[token_id]


def main() -> int:
    """Draw, render and print; 1 where a conversation was refused, or lost a text."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="conversations for each template")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--templates", required=True, help="archive of .jinja files")
    parser.add_argument("--only", default="", help="part of a template's name")
    options = parser.parse_args()
    total = refused = lost = 0
    for name, template in _templates(options.templates):
        if options.only not in name:
            continue
        prompt = _prompt(template)
        for number in range(options.seed, options.seed + options.count):
            history = histories.Drawer(number).history()
            messages = histories.spellings(history)[number % 4]
            total += 1
            try:
                missing = histories.missing(prompt.text(messages(), history.tools), history)
            except Exception as error:  # noqa: BLE001  a crash is a finding as well
                refused += 1
                sys.stdout.write(f"{name}, seed {number}: {error!r}\n")
                continue
            if missing:
                lost += 1
                sys.stdout.write(f"{name}, seed {number}: {missing[:3]} left out\n")
        sys.stderr.write(f"\r{total} conversations, {refused} refused, {lost} lost texts ")
    sys.stderr.write("\n")
    sys.stdout.write(f"{total} conversations, {refused} refused, {lost} lost texts\n")
    return int(refused + lost > 0)


def _templates(path: str) -> list[tuple[str, str]]:
    with tarfile.open(path) as archive:
        members = sorted(archive.getmembers(), key=lambda member: member.name)
        files = [(m.name, archive.extractfile(m)) for m in members if m.name.endswith(".jinja")]
        return [(name, file.read().decode()) for name, file in files if file]


def _prompt(template: str) -> Any:
    from mtkit.llm.chat_prompt import ChatPrompt

    model: Any = _Tokens()
    return ChatPrompt(model, template, values=histories.VALUES)


if __name__ == "__main__":
    sys.exit(main())
