"""Pictures, sounds and files in a conversation: those that the model takes, and the others.

What the user shows now, and the model does not take, is refused: an answer could only be made up.
What a tool returned, or the user showed in an earlier turn, would end the session with every
further request, so a text stands in its place, which tells the model, too.

Source of the forms: the references of OpenAI's, Anthropic's and Ollama's APIs; llama.cpp,
tools/server/server-common.cpp (``handle_media``).
"""

from __future__ import annotations

import os
import re
from functools import partial
from urllib.parse import unquote

from mtkit.errors import MtkitError, UnsupportedError, UsageError
from mtkit.llm.media import decode_data, read_medium

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mtkit.llama.media import Chunk
    from mtkit.llm.media import Media

MEDIA = {
    "image": "image", "image_url": "image", "input_image": "image", "input_audio": "audio",
    "audio_url": "audio", "video_url": "video", "file": "file", "input_file": "file",
    "document": "document",
}  # fmt: skip
"""The types of parts that are no text, in all APIs."""
_MOST = 64
"""Pictures and sounds of a request."""
_LINK, _FILE = (re.compile(f"(?i){scheme}://") for scheme in ("https?", "file"))
_ANSWERS = ("reasoning", "function_call", "custom_tool_call")
"""Types of items of the Responses API that a model wrote, besides its messages."""


class RequestMedia:
    """The media of one request.

    Attributes:
        media: Those that the model takes; None where it takes text alone.
    """

    def __init__(
        self,
        media: Media | None,
        fetch: Callable[[str], bytes] | None = None,
        folder: str | None = None,
    ) -> None:
        """Begin.

        Args:
            fetch: Gets the bytes of a link; None: links are refused.
            folder: That of the files which a request may name; None: they are refused.
        """
        self.media, self._fetch, self._folder = media, fetch, folder

    @property
    def chunks(self) -> Mapping[int, Chunk]:
        """What the prompts of the request hold, once they are tokenized."""
        return self.media.chunks if self.media is not None else {}

    def takes(self, kind: str) -> bool:
        """Whether the model takes media of a kind, as ``MEDIA`` names them."""
        projector = self.media.projector if self.media is not None else None
        return projector is not None and {
            "image": projector.sees, "audio": projector.hears,
        }.get(kind, False)  # fmt: skip

    def mark(self, part: Mapping[str, Any], field: str) -> str:
        """Take a part of a message that is no text; returns what stands for it."""
        kind = MEDIA[part["type"]]
        if not self.takes(kind):
            takes = ["text", *(other for other in ("image", "audio") if self.takes(other))]
            what = f"{kind} input is not supported; this model takes {' and '.join(takes)}"
            raise UsageError(what, field=field)
        value = part.get("source", part.get(part["type"], part.get("image_url")))
        if isinstance(value, dict):
            value = value.get("data", value.get("url"))
        return self.mark_data(value, f"{field}.{part['type']}")

    def mark_data(self, value: Any, field: str) -> str:
        """Take a picture or sound in base64, or its URL; returns what stands for it."""
        if self.media is None:
            raise UsageError("is not supported; this model takes text", field=field)
        if len(self.media) >= _MOST:
            raise UsageError(f"has more than {_MOST} pictures and sounds", field=field)
        return self.media.add(self._source(value, field), field)

    def _source(self, value: Any, field: str) -> bytes | Callable[[], bytes]:
        if not isinstance(value, str) or not value:
            raise UsageError("has neither data nor a URL", field=field)
        if _LINK.match(value):
            if self._fetch is None:
                what, hint = "links are not followed", "send the data, or start with --media-urls"
                raise UnsupportedError(what, field=field, hint=hint)
            return partial(self._fetch, value)
        if _FILE.match(value):
            if self._folder is None:
                what, hint = "files are not read", "send the data, or start with --media-path DIR"
                raise UnsupportedError(what, field=field, hint=hint)
            return partial(read_below, self._folder, unquote(value[7:]))
        return decode_data(value, field)


def read_below(folder: str, name: str) -> bytes:
    """Return the bytes of a file in a folder; ``..`` and links do not lead out of it.

    Raises:
        UsageError: There is none; whether there is one elsewhere is not said.
    """
    root = os.path.realpath(folder)
    try:
        path = os.path.realpath(os.path.join(root, name.lstrip("/")))
        is_inside = os.path.commonpath((root, path)) == root and os.path.isfile(path)
    except ValueError:  # a NUL, or another drive
        is_inside = False
    if not is_inside:
        raise UsageError("names no file in the folder of --media-path")
    try:
        return read_medium(path)
    except MtkitError as error:
        raise UsageError(error.what) from None  # without the path


NO_MEDIA = RequestMedia(None)
"""Of a model that takes text alone."""


def media_as_text(messages: Sequence[Any], media: RequestMedia) -> list[Any]:
    """Return messages or items of any API in which a text stands for media that are not new.

    Those that the model takes stay.
    """
    answers = [place for place, message in enumerate(messages) if _is_answer(message)]
    last = answers[-1] if answers else -1
    return [
        _replace_media(message, media, is_past=place < last)
        for place, message in enumerate(messages)
    ]


def _is_answer(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    return message.get("role") == "assistant" or message.get("type") in _ANSWERS


def _replace_media(message: Any, media: RequestMedia, *, is_past: bool) -> Any:
    if not isinstance(message, dict):
        return message
    is_result = message.get("role") == "tool" or "output" in message
    changed = dict(message)
    for name in ("content", "output"):
        parts = message.get(name)
        if isinstance(parts, list):
            changed[name] = [_replace_part(part, media, is_past or is_result) for part in parts]
    return changed


def _replace_part(part: Any, media: RequestMedia, is_past: bool) -> Any:
    if not isinstance(part, dict):
        return part
    kind = part.get("type")
    if kind == "tool_result" and isinstance(part.get("content"), list):
        return {**part, "content": [_replace_part(inner, media, True) for inner in part["content"]]}
    is_medium = isinstance(kind, str) and kind in MEDIA and not _holds_text(part)
    if not is_past or not is_medium or media.takes(MEDIA[str(kind)]):
        return part
    return {"type": "text", "text": f"[{MEDIA[str(kind)]} left out: this model takes text]"}


def _holds_text(part: Mapping[str, Any]) -> bool:
    """Whether it is one of Anthropic's documents that are texts."""
    source = part.get("source")
    return isinstance(source, dict) and source.get("type") in ("text", "content")
