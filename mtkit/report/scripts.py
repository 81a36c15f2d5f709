"""What tokens are written in: a script, digits, signs, white space, or bytes that are no text."""

from __future__ import annotations

from functools import lru_cache

from mtkit.unicode import tables as unicode

SEVERAL, DIGITS, SIGNS, SPACES, BYTES, EMPTY = (
    "several scripts", "digits", "signs", "white space", "bytes", "nothing",
)  # fmt: skip
_JAPANESE = {"Han", "Hiragana", "Katakana"}
_ANY = {"Common", "Inherited", "Unknown"}


def script_of(text: bytes) -> str:
    """Return what the text of a token is written in; letters count more than what is around."""
    try:
        letters = text.decode("utf-8")
    except UnicodeDecodeError:
        return BYTES
    if not letters:
        return EMPTY
    kinds = set(map(_kind, letters))
    scripts = kinds - {DIGITS, SIGNS, SPACES}
    if scripts:
        if len(scripts) == 1:
            return scripts.pop()
        return "Japanese" if scripts <= _JAPANESE else SEVERAL
    return next(kind for kind in (DIGITS, SIGNS, SPACES) if kind in kinds)


@lru_cache(maxsize=1 << 16)
def _kind(character: str) -> str:
    script = unicode.script(character)
    if script not in _ANY:
        return script.replace("_", " ")
    if character.isspace():
        return SPACES
    return DIGITS if unicode.category(character, "17.0")[0] == "N" else SIGNS
