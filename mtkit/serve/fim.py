"""A text whose middle is missing as a prompt: what stands before it, behind it, and around it.

Where the vocabulary marks files, the texts of other files come first, and the repository's name.

Source: llama.cpp, tools/server/server-common.cpp (``format_prompt_infill``).
"""

from __future__ import annotations

from mtkit.serve.replies import Problem
from mtkit.serve.served import aside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.serve.bodies.llama import Extra
    from mtkit.serve.served import Served

_MOST = 2048
"""Tokens of the text around the gap, three quarters of them before it; the nearest are taken."""
_REPOSITORY, _FILE, _BETWEEN = "myproject\n", "filename\n", "\n\n--- snippet ---\n\n"


class Fim:
    """Makes prompts of texts with a gap."""

    def __init__(self, served: Served, *, suffix_first: bool = False) -> None:
        """Look for the tokens.

        Args:
            served: Whose model.
            suffix_first: What stands behind the gap comes first.

        Raises:
            Problem: The vocabulary has none.
        """
        self._served, self._suffix_first = served, suffix_first
        self._marks = served.model.fim if served.model.has_vocabulary else {}
        missing = {"pre": "prefix", "suf": "suffix", "mid": "middle"}.keys() - self._marks
        if missing:
            raise Problem(501, f"this model cannot fill gaps: it has no FIM tokens ({served.name})")

    async def ids(
        self,
        prefix: str,
        suffix: str,
        begun: str = "",
        extra: Sequence[Extra] = (),
        limit: int | None = None,
    ) -> list[int]:
        """Return the tokens of a prompt.

        Args:
            prefix: What stands before the gap.
            suffix: What stands behind it.
            begun: What the gap begins with.
            extra: Pieces of other files, the nearest last.
            limit: Tokens that fill it at most.
        """
        return await aside(lambda: self._ids(prefix, suffix, begun, extra, limit))

    def _ids(
        self, prefix: str, suffix: str, begun: str, extra: Sequence[Extra], limit: int | None
    ) -> list[int]:
        marks, n_slot = self._marks, self._served.scheduler.n_slot
        reserved = n_slot // 4 if limit is None else min(limit, n_slot // 2)
        most = min(_MOST, n_slot - reserved)
        before, behind, gap = map(self._plain, (prefix, suffix, begun))
        before = before[len(before) - min(len(before), 3 * (most // 4)) :]
        behind = behind[: max(most // 4 - 2 - len(gap), 0)]
        parts = [[marks["pre"], *before, *gap], [marks["suf"], *behind]]
        if self._suffix_first:
            parts.reverse()
        model = self._served.model
        main = [*([model.bos] if model.add_bos else []), *parts[0], *parts[1], marks["mid"]]
        others = self._others(extra)
        room = max(n_slot - reserved - len(main), 0)
        return [*others[len(others) - min(len(others), room) :], *main]

    def _others(self, extra: Sequence[Extra]) -> list[int]:
        ids: list[int] = []
        repository, file = self._marks.get("rep"), self._marks.get("sep")
        if repository is not None:
            ids += [repository, *self._plain(_REPOSITORY)]
        for one in extra:
            ids += (
                self._plain(_BETWEEN) if file is None else [file, *self._plain(f"{one.filename}\n")]
            )
            ids += self._plain(one.text)
        return ids if file is None else [*ids, file, *self._plain(_FILE)]

    def _plain(self, text: str) -> list[int]:
        return self._served.model.tokenize(text, add_special=False, parse_special=False)
