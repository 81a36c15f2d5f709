"""Prompts that are no conversations: texts and ids in turn, several of these, or a text with a gap.

Around a gap (fill in the middle) stands what is before it and behind it. Where the vocabulary marks
files, the texts of other files come first, and the repository's name.

Source: llama.cpp, tools/server/server-common.cpp (``tokenize_input_prompts``,
``format_prompt_infill``).
"""

from __future__ import annotations

from mtkit.errors import UsageError
from mtkit.serve.model import SHORT_TEXT, run_in_thread
from mtkit.serve.reply import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from mtkit.llama import Model
    from mtkit.serve.bodies import Extra
    from mtkit.serve.model import ServedModel

    Prompt: TypeAlias = "list[str | int]"


_TEXT_FIELD, _MEDIA_FIELD = "prompt_string", "multimodal_data"
"""What a text, and what belongs to it, is called in an object; llama-server's."""
_MOST_ID = 1 << 31


def prompts_of(given: Any, field: str = "prompt") -> list[Prompt]:
    """Return the prompts of a request, each of texts and ids in turn.

    Source: llama.cpp, tools/server/server-common.cpp (``tokenize_input_prompts``).
    """
    is_list = isinstance(given, list)
    if not is_list or any(type(one) is int for one in given):
        return [prompt_of(given, field)]
    if not given:
        raise UsageError("is empty", field=field)
    return [prompt_of(one, field) for one in given]


def prompt_of(given: Any, field: str) -> Prompt:
    """Return one prompt."""
    found: list[str | int] = []
    for one in given if isinstance(given, list) else [given]:
        if isinstance(one, dict):
            if one.get(_MEDIA_FIELD):
                raise UsageError(
                    "holds media; this model takes text", field=f"{field}.{_MEDIA_FIELD}"
                )
            one = one.get(_TEXT_FIELD)
        if not isinstance(one, str) and not (type(one) is int and 0 <= one < _MOST_ID):
            raise UsageError("is not a text, ids, or a list of them", field=field)
        found.append(one)
    return found


def single_text(prompt: Prompt) -> str:
    """Return a prompt that is one text."""
    if len(prompt) != 1 or not isinstance(prompt[0], str):
        raise UsageError("is not one text", field="prompt")
    return prompt[0]


async def prompt_ids(
    served: ServedModel, prompt: Prompt, *, add_special: bool = True, parse_special: bool = True
) -> list[int]:
    """Return the tokens of a prompt; what stands around a text goes to one that begins it alone."""
    if not any(isinstance(one, str) for one in prompt):
        return [one for one in prompt if isinstance(one, int)]
    size = sum(len(one) if isinstance(one, str) else 1 for one in prompt)

    def work() -> list[int]:
        ids: list[int] = []
        for place, one in enumerate(prompt):
            if isinstance(one, int):
                ids.append(one)
            else:
                special = add_special and not place
                ids += served.model.tokenize(one, add_special=special, parse_special=parse_special)
        return ids

    return await run_in_thread(work, is_short=size < SHORT_TEXT)


def spell_tokens(model: Model, ids: list[int]) -> str:
    """Return the text of tokens, control tokens as they are spelled."""
    raw = b"".join([model.piece(token_id, special=True) for token_id in ids])
    return raw.decode("utf-8", "replace")


_MOST_AROUND = 2048
"""Tokens of the text around the gap, three quarters of them before it; the nearest are taken."""
_REPOSITORY_NAME, _FILE_NAME, _BETWEEN_FILES = (
    "myproject\n",
    "filename\n",
    "\n\n--- snippet ---\n\n",
)


class Fim:
    """Makes prompts of texts with a gap."""

    def __init__(self, served: ServedModel, *, suffix_first: bool = False) -> None:
        """Look for the tokens."""
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
        """Return the tokens of a prompt."""
        return await run_in_thread(lambda: self._ids(prefix, suffix, begun, extra, limit))

    def _ids(
        self, prefix: str, suffix: str, begun: str, extra: Sequence[Extra], limit: int | None
    ) -> list[int]:
        marks, n_slot = self._marks, self._served.scheduler.n_slot
        reserved = n_slot // 4 if limit is None else min(limit, n_slot // 2)
        most = min(_MOST_AROUND, n_slot - reserved)
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
            ids += [repository, *self._plain(_REPOSITORY_NAME)]
        for one in extra:
            ids += (
                self._plain(_BETWEEN_FILES)
                if file is None
                else [file, *self._plain(f"{one.filename}\n")]
            )
            ids += self._plain(one.text)
        return ids if file is None else [*ids, file, *self._plain(_FILE_NAME)]

    def _plain(self, text: str) -> list[int]:
        return self._served.model.tokenize(text, add_special=False, parse_special=False)
