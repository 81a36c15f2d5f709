"""Unicode normal forms as changes of an aligned text.

Decompose each character, put the marks behind a starter in the order of their combining classes,
and for the composed forms join each starter with the marks that are not blocked from it. Next to
each character of the result stands what became of the old ones (see ``Aligned.transform``): a
further character of a decomposition is inserted, a mark that went into a composition is removed.
A mark that moves takes its change along, as in the reference.

Source: the crate unicode-normalization-alignments 0.1, which ``tokenizers`` uses.
"""

from __future__ import annotations

from mtkit.unicode.characters import combining_class, composition, decomposition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mtkit.pipeline.normalizers.aligned import Change


def normal_form(text: str, form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> list[Change]:
    """Return the characters of a normal form with their changes."""
    decomposed = _decompose(text, compatible="K" in form)
    return _compose(decomposed) if form.endswith("C") else decomposed


def _decompose(text: str, *, compatible: bool) -> list[Change]:
    changes: list[Change] = []
    marks: list[tuple[int, Change]] = []
    for character in text:
        inserted = 0
        for part in (
            character if character < "\x80" else decomposition(character, compatible=compatible)
        ):
            order = combining_class(part)
            if order == 0 and marks:
                changes += [change for _, change in sorted(marks, key=_order)]
                marks.clear()
            if order == 0:
                changes.append((part, inserted))
            else:
                marks.append((order, (part, inserted)))
            inserted = 1
    return changes + [change for _, change in sorted(marks, key=_order)]


def _order(mark: tuple[int, Change]) -> int:
    return mark[0]


def _compose(changes: list[Change]) -> list[Change]:
    done: list[Change] = []
    starter: Change | None = None
    waiting: list[Change] = []
    highest = 0
    for character, change in changes:
        order = combining_class(character)
        if starter is None:
            if order:
                done.append((character, change))
            else:
                starter = (character, change)
            continue
        # A mark is blocked by one of the same or a higher class before it, a starter by any mark.
        if not waiting or highest < order:
            composed = composition(starter[0], character)
            if composed is not None:
                starter = (composed, starter[1] + change - 1)
                continue
        if order == 0:
            done += [starter, *waiting]
            starter, waiting = (character, change), []
        else:
            waiting.append((character, change))
            highest = order
    return [*done, starter, *waiting] if starter else done
