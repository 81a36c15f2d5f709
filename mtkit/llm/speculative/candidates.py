"""What may draft for a target: the table of candidates, and which of them is the best."""

from __future__ import annotations

import os

from mtkit.base.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.settings import DraftSettings

SIZES = (65536, 32768, 16384, 8192, 4096)
"""Ids of a static vocabulary that are tried, beside all of them."""
WEIGHTS = ("Q4_0",)
"""Types of weights that drafts are quantized to, beside those that they have: the fastest."""
_WORTH = 1.03
"""Times plain decoding that is worth a draft."""


class Candidate(Record):
    """Something that drafts.

    Attributes:
        name: For people.
        drafting: Its settings, without the number.
    """

    name: str
    drafting: DraftSettings


class Found(Record):
    """What a candidate promises, and gives.

    Attributes:
        candidate: It.
        drafting: Its settings with the number that is best, and the exact configuration.
        cost: Of a drafted token, in plain ones.
        acceptance: Part of the places where it is right.
        promised: Times plain decoding.
        measured: The same where it really wrote; None where it did not.
        same: Of the texts that it wrote those that are the target's own.
    """

    candidate: Candidate
    drafting: DraftSettings
    cost: float
    acceptance: float
    promised: float
    measured: float | None = None
    same: int = 0


def winner(found: Sequence[Found], *, exact: bool) -> Found | None:
    """Return the fastest candidate that wrote; None where none was worth it.

    Args:
        found: All, the fastest first.
        exact: Only exact ones count.
    """
    good = (one for one in found if one.measured is not None and one.measured > _WORTH)
    return next((one for one in good if one.drafting.exact or not exact), None)


def candidates_of(
    drafting: DraftSettings, drafts: Sequence[str], vocabularies: dict[int, str]
) -> list[Candidate]:
    """Return the table of candidates.

    Args:
        drafting: What all have in common.
        drafts: Files, as they are and with other weights.
        vocabularies: Number of ids -> vocab.txt.
    """
    found = [Candidate("lookup", replace(drafting, draft_lookup=True))]
    for path in drafts:
        name = os.path.basename(path).removesuffix(".gguf")
        whole = replace(drafting, draft=path)
        found.append(Candidate(name, whole))
        for size, vocabulary in vocabularies.items():
            cut = replace(whole, sx_static_vocab=vocabulary, sx_seed_prompt=True, sx_learn=True)
            found.append(Candidate(f"{name}, {size} ids", cut))
    found += [
        Candidate(f"lookup, {one.name}", replace(one.drafting, draft_lookup=True))
        for one in found[1:]
    ]
    return [*found, *(
        Candidate(f"{one.name}, not exact", replace(one.drafting, exact=False)) for one in found
    )]  # fmt: skip
