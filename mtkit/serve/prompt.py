"""Prompts that are no conversations: texts and ids in turn, several of these, or a text with a gap.

Around a gap (fill in the middle) stands what is before it and behind it. Where the vocabulary marks
files, the texts of other files come first, and the repository's name.

Source: llama.cpp, tools/server/server-common.cpp (``tokenize_input_prompts``,
``format_prompt_infill``).
"""

from __future__ import annotations

from mtkit.errors import UsageError
from mtkit.llm.media import PLACE
from mtkit.serve.media import NO_MEDIA, RequestMedia
from mtkit.serve.model import SHORT_TEXT, run_in_thread
from mtkit.serve.reply import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from mtkit.serve.bodies import Extra
    from mtkit.serve.model import ServedModel
    from mtkit.serve.scheduler import Scheduler

    Prompt: TypeAlias = "list[str | int]"


_TEXT_FIELD, _MEDIA_FIELD = "prompt_string", "multimodal_data"
"""llama-server's names for a text and its images in an object."""
_MOST_ID = 1 << 31


def prompts_of(
    value: Any,
    field: str = "prompt",
    media: RequestMedia = NO_MEDIA,
    scheduler: Scheduler | None = None,
) -> list[Prompt]:
    """Return the prompts of a request, each of texts and ids in turn.

    Args:
        media: Takes the pictures and sounds.
        scheduler: Says how many prompts and ids can be answered, before each is looked at.

    Source: llama.cpp, tools/server/server-common.cpp (``tokenize_input_prompts``).
    """
    is_list = isinstance(value, list)
    if not is_list or any(type(part) is int for part in value):
        if scheduler is not None and is_list:
            scheduler.room(len(value))
        return [prompt_of(value, field, media)]
    if not value:
        raise UsageError("is empty", field=field)
    if scheduler is not None:
        scheduler.check(len(value), field)
    return [prompt_of(part, field, media) for part in value]


def prompt_of(value: Any, field: str, media: RequestMedia = NO_MEDIA) -> Prompt:
    """Return one prompt."""
    prompt: list[str | int] = []
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict):
            if part.get("type") in _TYPES:
                raise UsageError(_TEXT_ALONE, field=field)
            data = part.get(_MEDIA_FIELD)
            part = part.get(_TEXT_FIELD)
            if isinstance(part, str) and (data or (data is not None and media.media is not None)):
                part = _place(part, data, f"{field}.{_MEDIA_FIELD}", media)
        if not isinstance(part, str) and not (type(part) is int and 0 <= part < _MOST_ID):
            raise UsageError("is not a text, ids, or a list of them", field=field)
        prompt.append(part)
    return prompt


_TEXT_ALONE = "pictures and sounds are not supported here; this model or route takes text"
_TYPES = ("image_url", "input_image", "image", "input_audio")


def _place(text: str, data: Any, field: str, media: RequestMedia) -> str:
    """Return a text with pictures and sounds, in base64, where it has libmtmd's marker."""
    if media.media is None:
        raise UsageError(_TEXT_ALONE, field=field)
    parts, data = text.split(PLACE), [data] if isinstance(data, str) else data
    if not isinstance(data, list) or len(data) != len(parts) - 1:
        raise UsageError(f"is not a list of what {PLACE} stands for in the text", field=field)
    marks = [media.mark_data(value, field) for value in data]
    return parts[0] + "".join(mark + part for mark, part in zip(marks, parts[1:], strict=True))


def single_text(prompt: Prompt) -> str:
    """Return a prompt that is one text."""
    if len(prompt) != 1 or not isinstance(prompt[0], str):
        raise UsageError("is not one text", field="prompt")
    return prompt[0]


async def prompt_ids(
    served: ServedModel,
    prompt: Prompt,
    media: RequestMedia = NO_MEDIA,
    *,
    add_special: bool = True,
    parse_special: bool = True,
) -> list[int]:
    """Return the tokens of a prompt; BOS is added only to a text at its beginning."""
    if not any(isinstance(part, str) for part in prompt):
        return [part for part in prompt if isinstance(part, int)]
    size = sum(len(part) if isinstance(part, str) else 1 for part in prompt)
    pictures = media.media or None  # also None while it is empty

    def work() -> list[int]:
        ids: list[int] = []
        for place, part in enumerate(prompt):
            if isinstance(part, int):
                ids.append(part)
            elif pictures:
                before, behind, _ = served.model.around if add_special else ([], [], [])
                own = pictures.tokenize(served.model, part, parse_special=parse_special)
                ids += own if place else [*before, *own, *behind]
            else:
                special = add_special and not place
                ids += served.model.tokenize(part, add_special=special, parse_special=parse_special)
        return ids

    return await run_in_thread(work, max(size, SHORT_TEXT) if pictures else size)


_MOST_AROUND = 2048
"""Tokens of the text around the gap, three quarters of them before it; the nearest are taken."""
_REPOSITORY_NAME, _FILE_NAME, _BETWEEN_FILES = (
    "myproject\n",
    "filename\n",
    "\n\n--- snippet ---\n\n",
)


class Fim:
    """Prompts for texts with a gap."""

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
        start: str = "",
        extra: Sequence[Extra] = (),
        limit: int | None = None,
    ) -> list[int]:
        """Return the tokens of a prompt; ``start`` begins the text in the gap."""
        size = sum(len(text) for text in (prefix, suffix, start, *(part.text for part in extra)))
        return await run_in_thread(lambda: self._ids(prefix, suffix, start, extra, limit), size)

    def _ids(
        self, prefix: str, suffix: str, start: str, extra: Sequence[Extra], limit: int | None
    ) -> list[int]:
        marks, n_slot = self._marks, self._served.scheduler.n_slot
        reserved = n_slot // 4 if limit is None else min(limit, n_slot // 2)
        most = min(_MOST_AROUND, n_slot - reserved)
        before, behind, gap = map(self._plain, (prefix, suffix, start))
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
        for part in extra:
            ids += (
                self._plain(_BETWEEN_FILES)
                if file is None
                else [file, *self._plain(f"{part.filename}\n")]
            )
            ids += self._plain(part.text)
        return ids if file is None else [*ids, file, *self._plain(_FILE_NAME)]

    def _plain(self, text: str) -> list[int]:
        return self._served.model.tokenize(text, add_special=False, parse_special=False)
