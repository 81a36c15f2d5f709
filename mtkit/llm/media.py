"""Pictures and sounds of a prompt: which projector computes them, and where they stand in the text.

In the text of a prompt a mark stands for each, drawn anew for every conversation, so that no text
can spell it; behind the chat template, ids and chunks take its place.

Source of the file's keys: gguf-py/gguf/constants.py of llama.cpp (``Keys.Clip``).
"""

from __future__ import annotations

import base64
import os
import re
from itertools import takewhile

from mtkit.errors import (
    FormatError,
    MtkitError,
    ResourceError,
    UnsupportedError,
    UsageError,
    format_count,
    system_message,
    wording,
)
from mtkit.llama.media import Chunk, check_form, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.llama import Model
    from mtkit.llama.media import Kind, Projector
    from mtkit.settings import AnswerSettings

PLACE = "<__media__>"
"""Where a picture is to stand in a text: libmtmd's own marker."""
_KINDS = {"image": "vision", "audio": "audio"}
_PREFERRED = ("f16", "bf16", "f32", "q8_0")
"""Types of projectors' weights in names of files, as they are chosen where several fit."""
_DIGITS = 20
_FAMILIES = (
    ("gemma3", "gemma3"), ("gemma4", "gemma4"), ("qwen2vl", "qwen2vl"), ("qwen2.5", "qwen2vl"),
    ("qwen3vl", "qwen"), ("llama4", "llama4"), ("lfm2", "lfm2"),
)  # fmt: skip
"""How kinds of projectors begin -> how the architecture of each of their models does, where only
one family has them: libmtmd tells only widths apart, and the text would be made up."""


class ProjectorHeader:
    """The head of a projector's file.

    Attributes:
        kinds: What it takes: "image", "audio", or both.
        width: That of the rows it makes; 0 where it does not say.
        n_bytes: Memory that it takes: its weights, which are read and not mapped, and a layer of
            what is computed of a picture of the size that it was trained with.
    """

    def __init__(self, path: str) -> None:
        from mtkit.gguf import open_gguf

        self.file = file = open_gguf(path)
        self.path = path
        keys = file.metadata
        if keys.get("general.architecture") != "clip":
            hint = f"{wording('--mmproj', 'mmproj')} takes the file whose name begins with mmproj"
            raise FormatError("is not a projector", source=path, hint=hint)
        names = (
            "clip.projector_type",
            *(f"clip.{part}.projector_type" for part in _KINDS.values()),
        )
        self._projectors = [keys[name] for name in names if isinstance(keys.get(name), str)]
        self.kinds: frozenset[Kind] = frozenset(
            kind for kind, part in _KINDS.items()  # type: ignore[misc]
            if keys.get(f"clip.has_{part}_encoder") is True
        )  # fmt: skip
        widths = [keys.get(f"clip.{part}.projection_dim") for part in _KINDS.values()]
        self.width = next((width for width in widths if type(width) is int), 0)
        self.n_bytes = sum(tensor.n_bytes for tensor in file.tensors) + self._computed_bytes()

    def _computed_bytes(self) -> int:
        def number(name: str) -> int:
            value = self.file.metadata.get(f"clip.vision.{name}")
            return value if type(value) is int and 0 < value < 1 << 20 else 0

        side = number("image_size") // max(number("patch_size"), 1)
        width = 6 * number("embedding_length") + 2 * number("feed_forward_length")
        return 4 * side * side * width

    @property
    def senses(self) -> list[str]:
        """What a model does with it, in words."""
        words = {"image": "sees pictures", "audio": "hears sounds"}
        return [words[kind] for kind in sorted(self.kinds, reverse=True)]

    def misfit(self, metadata: Mapping[str, Any], model: str) -> str:
        """Return why it is not the projector of a model; empty where it may be."""
        architecture = str(metadata.get("general.architecture"))
        if self.width and self.width != metadata.get(f"{architecture}.embedding_length"):
            return f"makes rows of {self.width} numbers, which {model} does not take"
        for kind in self._projectors:
            family = next((own for begin, own in _FAMILIES if kind.startswith(begin)), "")
            if not architecture.startswith(family):
                return f"is for {family} models, and {model} is one of {architecture}"
        return ""


def find_projector(
    model: str, metadata: Mapping[str, Any], own: str | None = None
) -> ProjectorHeader | None:
    """Return the projector of a model: ``own``, or a file ``mmproj*.gguf`` beside it that fits.

    Raises:
        UnsupportedError: ``own`` is of another model.
    """
    if own == "none":
        return None
    if own is not None:
        try:
            header = ProjectorHeader(own)
        except UsageError as error:  # there is no such file
            option = wording("--mmproj", "mmproj")
            error.hint = error.hint or f"{option} names the projector for pictures and sounds"
            raise
        if why := header.misfit(metadata, model):
            hint = "use the projector that was made from the same model"
            raise UnsupportedError(why, source=own, hint=hint)
        return header
    folder = os.path.dirname(model) or "."
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return None
    fitting = []
    for name in names:
        if re.search(r"(?i)\A(?:.*[-_.])?mmproj.*\.gguf\Z", name):
            try:
                header = ProjectorHeader(os.path.join(folder, name))
            except (MtkitError, OSError):
                continue
            if header.kinds and not header.misfit(metadata, model):
                fitting.append(header)
    return min(fitting, key=lambda header: _rank(header.path, model), default=None)


def _rank(path: str, model: str) -> tuple[int, int]:
    """Return how far down a file is among the projectors of a model."""
    name, own = os.path.basename(path).lower(), os.path.basename(model).lower()
    pairs = zip(name.partition("mmproj")[2].strip("-_."), own, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    kinds = [at for at, kind in enumerate(_PREFERRED) if re.search(rf"\b{kind}\b", name)]
    return -common, min(kinds, default=len(_PREFERRED))


def refuse_media(kinds: frozenset[Kind], kind: Kind, source: str = "") -> None:
    """Raise where a model does not take a kind of medium."""
    if kind in kinds:
        return
    verb, what = ("see", "pictures") if kind == "image" else ("hear", "sounds")
    option = wording("--mmproj FILE", "mmproj=FILE")
    raise UnsupportedError(
        f"this model does not {verb}: no projector for {what} was found", source=source,
        hint=f"put its mmproj*.gguf beside it, or name it with {option}",
    )  # fmt: skip


def read_media(settings: AnswerSettings, kinds: frozenset[Kind]) -> list[bytes]:
    """Return the files that settings name, of a model that takes these kinds of them."""
    for kind, paths in (("image", settings.images), ("audio", settings.audio)):
        for path in paths:
            refuse_media(kinds, kind, path)  # type: ignore[arg-type]
    return [read_checked(path) for path in (*settings.images, *settings.audio)]


def read_checked(path: str) -> bytes:
    """Return the bytes of a picture or sound; one that cannot be read is refused by its head."""
    data = read_medium(path)
    try:
        check_form(data)
    except MtkitError as error:
        raise error.located(path) from None
    return data


def read_medium(path: str) -> bytes:
    """Return the bytes of a file, or refuse one that is too large."""
    from mtkit.base.binary import open_input
    from mtkit.llama.media import MOST_BYTES

    try:
        with open_input(path) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(system_message(error), source=path) from None
    if len(data) > MOST_BYTES:
        raise ResourceError(f"has more than {MOST_BYTES} bytes", source=path)
    return data


class Media:
    """The pictures and sounds of a conversation.

    Attributes:
        chunks: Of all that were tokenized, by the id of the first row.
    """

    def __init__(self, projector: Projector) -> None:
        """Draw a mark."""
        self.projector = projector
        self.chunks: dict[int, Chunk] = {}
        self._mark = "%" + "".join("56789"[byte % 5] for byte in os.urandom(_DIGITS))
        self._pattern = re.compile(f"{self._mark}([0-9]{{4}})")
        self._sources: list[tuple[bytes | Callable[[], bytes], str]] = []
        self._ids: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, data: bytes | Callable[[], bytes], field: str = "") -> str:
        """Take the bytes of a picture or sound, or what gets them; returns its mark."""
        self._sources.append((data, field))
        return f"{self._mark}{len(self._sources) - 1:04}"

    def take(self, data: bytes, _: Kind) -> str:
        """Take the bytes of a picture or sound; returns its mark."""
        return self.add(data)

    def prepare(self) -> None:
        """Read and tokenize what was taken last; one that cannot be read is as if never taken."""
        try:
            self._tokens(len(self) - 1)
        except MtkitError:
            del self._sources[-1]
            raise

    def place(self, text: str, files: Sequence[bytes], field: str = "") -> str:
        """Return a text with files at the places that it has for them, or before it."""
        marks, parts = [self.add(data, field) for data in files], text.split(PLACE)
        if len(parts) == 1:
            return "".join(marks) + text
        if len(parts) != len(marks) + 1:
            size = format_count(len(marks), "file")
            what = f"has {format_count(len(parts) - 1, 'place')} ({PLACE}) for {size}"
            raise UsageError(what, field="prompt")
        return parts[0] + "".join(a + b for a, b in zip(marks, parts[1:], strict=True))

    def place_last(
        self, messages: Sequence[Mapping[str, Any]], files: Sequence[bytes]
    ) -> list[dict[str, Any]]:
        """Return messages with files before the last text of the user."""
        placed = [dict(message) for message in messages]
        users = [message for message in placed if message.get("role") == "user"]
        if files and not (users and isinstance(users[-1].get("content"), str)):
            raise UsageError("has no text of a user for a picture", field="messages")
        if files:
            users[-1]["content"] = self.place(users[-1]["content"], files)
        return placed

    def shown(self, text: str) -> str:
        """Return a text with libmtmd's marker in the place of each mark."""
        return self._pattern.sub(PLACE, text)

    def split(self, text: str, files: Sequence[bytes]) -> str | list[dict[str, Any]]:
        """Return a text with marks as parts of a message; ``files`` are those that were taken."""
        pieces = self._pattern.split(text)
        if len(pieces) == 1:
            return text
        return [
            part_of(files[int(piece)]) if place % 2 else {"type": "text", "text": piece}
            for place, piece in enumerate(pieces) if piece
        ]  # fmt: skip

    def check(self, texts: str, ids: Sequence[int]) -> None:
        """Check that all marks in the texts of messages came through the template."""
        present = set(ids)
        for match in self._pattern.finditer(texts):
            if not present.intersection(self._tokens(int(match[1]))):
                raise UnsupportedError(
                    "the chat template leaves out a picture", field=self._sources[int(match[1])][1]
                )

    def tokenize(self, model: Model, text: str, *, parse_special: bool) -> list[int]:
        """Return the ids of a text, each part of it on its own, as libmtmd does."""
        ids: list[int] = []
        for place, part in enumerate(self._pattern.split(text)):
            if place % 2:
                ids += self._tokens(int(part))
            else:
                ids += model.tokenize(part, add_special=False, parse_special=parse_special)
        return ids

    def _tokens(self, number: int) -> list[int]:
        if number not in self._ids:
            source, field = self._sources[number]
            ids: list[int] = []
            try:
                data = source if isinstance(source, bytes) else source()
                for part in self.projector.parts(data):
                    ids += part.ids if isinstance(part, Chunk) else part
                    if isinstance(part, Chunk):
                        self.chunks.setdefault(part.ids[0], part)
            except MtkitError as error:
                if field and not error.field:
                    error.field = field
                raise
            self._ids[number] = ids
            self._sources[number] = b"", field  # it is not read again
        return self._ids[number]


def flat_messages(
    messages: list[dict[str, Any]],
    attach: Callable[[bytes, Kind], str],
    kinds: frozenset[Kind],
) -> list[dict[str, Any]]:
    """Return messages whose parts are joined: texts with a line break, pictures with nothing.

    Args:
        attach: Takes a picture or sound, and returns its mark.
        kinds: What the model takes.
    """
    flat = []
    for place, message in enumerate(messages):
        parts, text, gap = message.get("content"), "", ""
        for number, part in enumerate(parts if isinstance(parts, list) else ()):
            field = f"messages[{place}].content[{number}]"
            medium = _medium_of(part, field, kinds)
            if medium is not None:
                text, gap = text + attach(*medium), ""
            elif isinstance(part, dict) and isinstance(part.get("text"), str):
                text, gap = text + gap + part["text"], "\n"
            else:
                kind = part.get("type") if isinstance(part, dict) else type(part).__name__
                what = f"is {kind}, but a model takes text, pictures and sounds here"
                raise UnsupportedError(what, field=field)
        flat.append({**message, "content": text} if isinstance(parts, list) else message)
    return flat


def _medium_of(part: Any, field: str, kinds: frozenset[Kind]) -> tuple[bytes, Kind] | None:
    """Return the picture or sound of a part of a message in OpenAI's form; None of another."""
    names: dict[Any, Kind] = {"image_url": "image", "image": "image", "input_audio": "audio"}
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in names:
        return None
    if names[kind] not in kinds:
        verb = "see" if names[kind] == "image" else "hear"
        hint = f"{wording('--mmproj FILE', 'mmproj=FILE')}: the projector that it {verb}s with"
        what = f"is {kind}, but this model does not {verb}"
        raise UnsupportedError(what, field=field, hint=hint)
    value = part.get(kind)
    value = value.get("data", value.get("url")) if isinstance(value, dict) else value
    if isinstance(value, bytes):
        return value, names[kind]
    if not isinstance(value, str):
        raise UsageError("is neither bytes, a path nor a data: URL", field=field)
    if kind != "input_audio" and value[:5].lower() != "data:":
        if re.match("(?i)https?://", value):
            what, hint = "is a link, which is not followed", "give the path of a file, or its bytes"
            raise UnsupportedError(what, field=field, hint=hint)
        return read_medium(value.removeprefix("file://")), names[kind]
    return decode_data(value, field), names[kind]


_DATA_URL = re.compile(r"data:(?:image|audio)/[\w.+-]+(?:;[\w.+=-]+)*;base64,", re.IGNORECASE)


def decode_data(value: str, field: str) -> bytes:
    """Return the bytes of a text in base64, in lines or not, or of such a data: URL."""
    match = _DATA_URL.match(value)
    if match is None and ":" in value[:64]:
        raise UsageError("is not a data: URL of a picture or sound in base64", field=field)
    text = value[match.end() :] if match else value
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise UsageError("is not base64", field=field) from None


def part_of(data: bytes) -> dict[str, Any]:
    """Return a picture or sound as a part of a message in OpenAI's form."""
    text = base64.b64encode(data).decode()
    form = next((form for sign, form in _FORMS if data.startswith(sign)), "mp3")
    if kind_of(data) == "audio":
        return {"type": "input_audio", "input_audio": {"data": text, "format": form}}
    return {"type": "image_url", "image_url": {"url": f"data:image/{form};base64,{text}"}}


_FORMS = (
    (b"\x89PNG", "png"), (b"GIF8", "gif"), (b"BM", "bmp"), (b"\xff\xd8", "jpeg"),
    (b"RIFF", "wav"), (b"fLaC", "flac"),
)  # fmt: skip


class MarkedModel:
    """A model's tokenizer that knows the marks of ``Media``, for ``ChatPrompt``."""

    def __init__(self, model: Model, media: Media) -> None:
        self._model, self._media = model, media
        self.piece, self.strips = model.piece, model.strips

    def is_control(self, token_id: int) -> bool:
        """Whether it is a control token; a row of a picture is not."""
        return token_id >= 0 and self._model.is_control(token_id)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:  # noqa: ARG002
        """Return the ids of a text."""
        return self._media.tokenize(self._model, text, parse_special=parse_special)


def runs(ids: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part of a prompt: of text, or rows of one chunk."""
    while start < stop:
        end, is_text = start + 1, ids[start] >= 0
        while end < stop and (ids[end] >= 0 if is_text else ids[end] == ids[end - 1] - 1):
            end += 1
        yield start, end
        start = end


def lag_of(ids: Sequence[int], chunks: Mapping[int, Chunk]) -> int:
    """Return how many more tokens than positions there are; chunks are whole."""
    return sum(chunks[token_id].lag for token_id in ids if token_id in chunks) if chunks else 0
