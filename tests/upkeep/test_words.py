"""Sentences that people read keep to docs/style.md, as far as a test can tell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from mtkit.check.explanations import EXPLANATIONS

ROOT = Path(__file__).parents[2]
BRITISH = re.compile(
    r"\b\w*(neighbour|colour|behaviour|honour|favour|licence"
    r"|(quanti|normali|tokeni|recogni|initiali|optimi|organi|seriali|visuali|regulari|summari)s"
    r"(e|ed|es|er|ers|ing|ation)\b)",
    re.I,
)
QUOTED = {
    "mtkit/commands/first_words.py": "what people type",
    "tools/screens.py": "shows that",
    "mtkit/tiktoken/model.py": "tiktoken's own message",
    "mtkit/settings/__init__.py": "a spelling that was an option",
    "docs/cli.md": "shows it",
    "CHANGELOG.md": "says what it was",
    "docs/settings.md": "as above",
}
"""Files that quote a British spelling for a reason."""
FOUND = re.compile(
    r"\b(no|not|nor|neither|nothing|cannot|could not|more|longer|above|lacks?|missing|twice|past"
    r"|after|outside|beyond|another|unknown|wrong|differ(s|ent)?|refuses?|unused|negative|other"
    r"|damaged|share|same|empty|interrupted|infinite|renamed|too|NUL|NaN|64 bytes)\b",
    re.I,
)


def tracked(*patterns: str) -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("not a checkout")
    return done.stdout.splitlines()


def test_the_spelling_is_american() -> None:
    files = tracked("*.md", "mtkit/*.py", "mtkit/*.js", "mtkit/*.html", "tools/*.py")
    assert len(files) > 400
    found = {
        f"{name}:{number}: {word[0]}"
        for name in files
        if name not in QUOTED
        for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), 1)
        for word in [BRITISH.search(line)]
        if word
    }
    assert not found


@pytest.mark.parametrize("code", EXPLANATIONS)
def test_a_rule_says_what_was_found(code: str) -> None:
    text = EXPLANATIONS[code]
    first = re.split(r"\. |: |; ", text)[0]
    assert FOUND.search(first), "say what was found, not what holds for a sound file"
    assert re.match(r"[A-Z_a-z0-9.]", text)
    assert text.endswith(".")
