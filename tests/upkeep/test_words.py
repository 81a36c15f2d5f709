"""Sentences that people read keep to docs/style.md, as far as a test can tell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from mtkit.checks.checker import all_rules

ROOT = Path(__file__).parents[2]
BRITISH = re.compile(
    r"\b\w*(neighbour|colour|behaviour|honour|favour|licence"
    r"|(quanti|normali|tokeni|recogni|initiali|optimi|organi|seriali|visuali|regulari|summari)s"
    r"(e|ed|es|er|ers|ing|ation)\b)",
    re.I,
)
QUOTED = {
    "mtkit/commands/help.py": "what people type",
    "tools/screens.py": "shows that",
    "mtkit/tiktoken/model.py": "tiktoken's own message",
}
"""Files that quote a British spelling for a reason."""
FOUND = re.compile(
    r"\b(no|not|nor|neither|nothing|cannot|could not|more|longer|above|lacks?|missing|twice|past"
    r"|after|outside|beyond|another|unknown|wrong|differ(s|ent)?|refuses?|unused|negative|other"
    r"|damaged|share|same|empty|interrupted|infinite|renamed|too|NUL|NaN|64 bytes)\b",
    re.I,
)
PAGES = [
    path
    for path in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")))
    if path.name != "style.md"  # it names them
]
BANNED = {
    r"\bbut for\b": "except",
    r"\bat work\b": "in use, running",
    r"\bas said\b": "say it",
    r"\bstands? (once|twice|behind|in front|there|beside)\b": "is, occurs, follows",
    r"(^|[.:;] )Of (an?|the|all|each|every|what)\b": "put 'of' where speech puts it",
    r"(^|[.:;] )What (?!if\b)[^?.:]*[.:]": "no what-clause as a subject",
    r"\blets? it be\b": "keeps, ignores",
    r"\bbesides\b": "also, in addition",
    r"\b(exit|read|written|told|refused) by name\b": "with an error that names it",
}
"""Phrase -> what to write."""


def tracked(*patterns: str) -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("not a checkout")
    return done.stdout.splitlines()


def test_the_spelling_is_american() -> None:
    kinds = ("mtkit/*.py", "mtkit/*.js", "mtkit/*.html", "native/*.hpp", "native/*.cpp")
    files = tracked("*.md", "tools/*.py", *kinds)
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


EXPLANATIONS = {rule.code: rule.explanation for rule in all_rules()}


@pytest.mark.parametrize("code", EXPLANATIONS)
def test_a_rule_says_what_was_found(code: str) -> None:
    text = EXPLANATIONS[code]
    first = re.split(r"\. |: |; ", text)[0]
    assert FOUND.search(first), "say what was found, not what holds for a sound file"
    assert re.match(r"[A-Z_a-z0-9.]", text)
    assert text.endswith(".")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_has_no_banned_phrase(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "CODE", text))
    found = [
        f"{instead}: …{one[max(hit.start() - 30, 0) : hit.end() + 30]}…"
        for part in re.split(r"\n\s*\n|\n(?=[-|#*]|\d\.)", text)
        for one in [re.sub(r"^([-*|#]+|\d\.) *", "", " ".join(part.split()))]
        for phrase, instead in BANNED.items()
        for hit in re.finditer(phrase, one)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_have_titles_and_not_names_of_files(path: Path) -> None:
    links = re.findall(r"\[([^\]\n]*)\]\(([^)\s]*)\)", path.read_text(encoding="utf-8"))
    assert not [text for text, _ in links if re.fullmatch(r"`?[\w./-]+\.md`?", text)]
