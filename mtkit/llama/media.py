"""Pictures and sounds for a model: libmtmd turns them into rows that take the place of tokens.

A projector computes the rows of a chunk, which is a picture, a tile of one, or a piece of a sound.
In the ids of a prompt a negative number stands for each of its rows, made of the hash of its bytes
and of the row's place: prompts with the same picture begin with the same ids, and each id says how
far before it the chunk begins.

Rows may share a position: with M-RoPE, those of a picture take as many as it is high or wide.

Pictures are decoded in a process of their own (``picture``), sounds here: libmtmd alone knows the
rate that the projector wants.

Source: mtmd.h and mtmd-helper.cpp of llama.cpp (``mtmd_helper_decode_image_chunk``).
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
import threading
import weakref

from mtkit.base.process import Closeable
from mtkit.errors import ResourceError, UnsupportedError, UsageError, format_count, wording
from mtkit.llama.picture import check_picture, decode_picture
from mtkit.llama.shared_library import call_uninterrupted, log, media_library, remember_model

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Literal

    from mtkit.llama.model import Model
    from mtkit.settings import ContextSettings, LoadSettings

    Kind = Literal["image", "audio"]

_ROW_BITS, _HASH_BYTES = 20, 8
"""An id has room for so many rows, and for so much of a hash."""
MOST_BYTES = 20 << 20
"""Bytes of one picture or sound."""
_MOST_SECONDS = 600
"""Seconds of a sound: 38 MB of samples, and as much again for what is computed of them."""
_RATES = range(4_000, 384_001)
_FLASH = {"auto": -1, "off": 0, "on": 1}
_TEXT = 0
"""MTMD_INPUT_CHUNK_TYPE_TEXT."""
_SOUNDS = ((b"RIFF", b"WAVE"), (b"ID3", b""), (b"fLaC", b""))


def row_of(token_id: int) -> int:
    """Return which row of its chunk a negative id stands for."""
    return -token_id & (1 << _ROW_BITS) - 1


def first_of(token_id: int) -> int:
    """Return the id of the first row of the chunk that a negative id belongs to."""
    return token_id + row_of(token_id)


def whole_chunks(ids: Sequence[int], end: int) -> int:
    """Return how many ids there are before ``end`` without a chunk that it would cut in two."""
    return end - row_of(ids[end]) if end < len(ids) and ids[end] < 0 else end


def text_ids(ids: Sequence[int]) -> list[int]:
    """Return the ids of the text alone."""
    return [token_id for token_id in ids if token_id >= 0]


class Chunk:
    """What one picture, tile or sound is to the model.

    Attributes:
        ids: What stands for it in a prompt.
        span: How many positions it takes.
        is_causal: Its rows see those before them alone, and can be computed in parts.
        grid: Columns and rows of its tokens, as far as libmtmd says; (0, 0) of a sound.
        rows: float32 of shape (tokens, width); None before ``Projector.encode``.
    """

    def __init__(self, lib: Any, handle: int, first: int, *, is_causal: bool) -> None:
        self._finalizer = weakref.finalize(self, lib.mtmd_input_chunk_free, handle)
        self.handle = handle
        size = lib.mtmd_input_chunk_get_n_tokens(handle)
        self.ids = range(first, first - size, -1)
        self.span: int = lib.mtmd_input_chunk_get_n_pos(handle)
        self.is_causal = is_causal
        self.rows: Any = None
        self.grid = (0, 0)
        self._places: list[Any] = []
        if tokens := lib.mtmd_input_chunk_get_tokens_image(handle):
            self.grid = (
                lib.mtmd_image_tokens_get_nx(tokens), lib.mtmd_image_tokens_get_ny(tokens),
            )  # fmt: skip
            self._places = [_places_of(lib, tokens, size, start) for start in (0, 1)]

    @property
    def lag(self) -> int:
        """How many more rows than positions it has."""
        return len(self.ids) - self.span

    def take_rows(self, rows: Any) -> None:
        """Keep its rows, and free what they were computed from: up to 10 MB of a picture."""
        self.rows = rows
        self._finalizer()

    def positions(self, start: int, sections: int) -> Any:
        """Return where its rows stand: int32 of shape (sections, tokens).

        Args:
            start: Position of its first row.
            sections: Numbers that a position has: 4 with M-RoPE, else 1.
        """
        import numpy as np

        if sections == 1 or not self._places:
            size = len(self.ids)
            return np.tile(np.arange(start, start + size, dtype=np.int32), (sections, 1))
        at_0, at_1 = (np.frombuffer(part, np.int32).reshape(-1, 4) for part in self._places)
        columns = at_0 + start * (at_1 - at_0)  # what does not move with the start stays
        return np.ascontiguousarray(columns[:, [0, 2, 1, 3]].T)  # t, y, x, z


def _places_of(lib: Any, tokens: int, size: int, start: int) -> Any:
    places = (lib.mtmd_decoder_pos * size)()
    lib.mtmd_helper_image_get_decoder_pos(tokens, start, places)
    return places


class Projector(Closeable):
    """A projector beside its model; close it, or use it in ``with``. Threads may share it.

    Attributes:
        sees, hears: Whether it takes pictures, and sounds.
        sections: Numbers that a position has.
    """

    def __init__(
        self, model: Model, path: str, context: ContextSettings, load: LoadSettings
    ) -> None:
        """Load it; ``context`` is that of the model."""
        self._library = lib = media_library()
        self._lock = threading.Lock()
        self.model, self.path, self._most = model, path, min(context.n_ubatch, context.n_batch)
        params = lib.mtmd_context_params_default()
        params.use_gpu = load.gpu_layers != 0
        params.n_threads = context.threads or 1
        params.flash_attn_type = _FLASH[context.flash_attention]
        params.print_timings = False
        log.clear()
        remember_model(path)
        handle = call_uninterrupted(lib.mtmd_init_from_file, path.encode(), model.handle, params)
        remember_model(model.path)
        if not handle:
            raise UnsupportedError(
                f"does not go with this model{log.reason()}", source=path,
                hint=wording("--mmproj takes the projector", "mmproj takes the projector")
                + " that was made from the same model",
            )  # fmt: skip
        self._finalizer = weakref.finalize(self, lib.mtmd_free, handle)
        self.handle: int = handle
        self.sees = bool(lib.mtmd_support_vision(handle))
        self.hears = bool(lib.mtmd_support_audio(handle))
        self.sections = 4 if lib.mtmd_decode_use_mrope(handle) else 1
        self._width: int = model._library.llama_model_n_embd_inp(model.handle)  # noqa: SLF001

    def parts(self, data: bytes) -> list[list[int] | Chunk]:
        """Return what stands for a picture or a sound in a prompt: ids around it, and its chunks.

        Raises:
            UsageError: It cannot be read.
            ResourceError: It is larger than the limits, or takes too long.
        """
        if len(data) > MOST_BYTES:
            raise ResourceError(f"has {len(data)} bytes, the limit is {MOST_BYTES}")
        digest = hashlib.sha256(data).digest()
        kind = kind_of(data)
        if not (self.sees if kind == "image" else self.hears):
            raise UsageError(f"this model does not {'see' if kind == 'image' else 'hear'}")
        bitmap = self._sound(data) if kind == "audio" else self._picture(data)
        lib = self._library
        try:
            return list(self._tokenize(bitmap, digest))
        finally:
            lib.mtmd_bitmap_free(bitmap)

    def probe(self) -> None:
        """Compute an empty picture, or a silent second."""
        lib, side, rate = self._library, 64, 16_000
        if self.sees:
            bitmap = lib.mtmd_bitmap_init(side, side, (ctypes.c_uint8 * (3 * side * side))())
        else:
            bitmap = lib.mtmd_bitmap_init_from_audio(rate, (ctypes.c_float * rate)())
        try:
            for part in self._tokenize(bitmap, b""):
                if isinstance(part, Chunk):
                    self.encode(part)
        finally:
            lib.mtmd_bitmap_free(bitmap)

    def _picture(self, data: bytes) -> int:
        width, height, pixels = decode_picture(data)
        buffer = (ctypes.c_uint8 * len(pixels)).from_buffer(pixels)
        bitmap: int = self._library.mtmd_bitmap_init(width, height, buffer)
        return bitmap

    def _sound(self, data: bytes) -> int:
        lib, data = self._library, _checked_sound(data)
        buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        bitmap = lib.mtmd_helper_bitmap_init_from_buf(self.handle, buffer, len(data), False)
        if not bitmap:
            raise UsageError("is a damaged sound")
        seconds = (
            lib.mtmd_bitmap_get_n_bytes(bitmap) / 4 / lib.mtmd_get_audio_sample_rate(self.handle)
        )
        if not 0 < seconds <= _MOST_SECONDS:
            lib.mtmd_bitmap_free(bitmap)
            raise ResourceError(f"lasts {seconds:.0f} s, a sound may take {_MOST_SECONDS}")
        return int(bitmap)

    def _tokenize(self, bitmap: int, digest: bytes) -> Iterator[list[int] | Chunk]:
        lib = self._library
        chunks = lib.mtmd_input_chunks_init()
        try:
            marker = lib.mtmd_default_marker()
            text = lib.mtmd_input_text(marker, len(marker), False, True)
            bitmaps = (ctypes.c_void_p * 1)(bitmap)
            log.clear()
            if lib.mtmd_tokenize(self.handle, chunks, ctypes.byref(text), bitmaps, 1):
                raise UsageError(f"cannot be prepared for this model{log.reason()}")
            for place in range(lib.mtmd_input_chunks_size(chunks)):
                chunk = lib.mtmd_input_chunks_get(chunks, place)
                if lib.mtmd_input_chunk_get_type(chunk) == _TEXT:
                    count = ctypes.c_size_t()
                    ids = lib.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
                    yield self._around(ids[: count.value])
                else:
                    yield self._chunk(chunk, digest + bytes([place % 256, place // 256]))
        finally:
            lib.mtmd_input_chunks_free(chunks)

    def _around(self, ids: list[int]) -> list[int]:
        """Return the ids of text around a picture; llama.cpp has -1 for one that is missing."""
        if min(ids, default=0) < 0:
            what = "the vocabulary has no tokens for what stands around a picture"
            raise UnsupportedError(what, source=self.model.path)
        return ids

    def _chunk(self, handle: int, key: bytes) -> Chunk:
        lib = self._library
        number = int.from_bytes(hashlib.sha256(key).digest()[:_HASH_BYTES], "little") + 1
        is_causal = not lib.mtmd_decode_use_non_causal(self.handle, handle)
        chunk = Chunk(
            lib, lib.mtmd_input_chunk_copy(handle), -(number << _ROW_BITS), is_causal=is_causal
        )
        size = len(chunk.ids)
        if size >> _ROW_BITS:
            raise ResourceError(f"takes {size} tokens")
        if not is_causal and size > self._most:
            raise ResourceError(
                f"takes {format_count(size, 'token')}, which are computed at once; a batch has "
                f"{self._most}",
                hint=wording(f"--batch {size} --ubatch {size}", f"n_batch={size}, n_ubatch={size}"),
            )
        return chunk

    def encode(self, chunk: Chunk) -> None:
        """Compute the rows of a chunk, one at a time."""
        import numpy as np

        with self._lock:
            if chunk.rows is not None:
                return
            if not self._finalizer.alive:
                raise UsageError("the projector is closed")
            log.clear()
            if call_uninterrupted(self._library.mtmd_encode_chunk, self.handle, chunk.handle):
                raise UnsupportedError(f"the picture cannot be computed{log.reason()}")
            rows = self._library.mtmd_get_output_embd(self.handle)
            shape = len(chunk.ids), self._width
            chunk.take_rows(np.ctypeslib.as_array(rows, shape).copy())

    def close(self) -> None:
        """Free it; a second time does nothing."""
        with self._lock:
            self._finalizer()


def check_form(data: bytes) -> None:
    """Refuse what is neither a picture nor a sound that can be read, by its head."""
    if kind_of(data) == "image":
        check_picture(data)


def kind_of(data: bytes) -> Kind:
    """Return what the bytes of a file hold, as libmtmd tells sounds."""
    if any(data.startswith(a) and data[8:12].startswith(b) for a, b in _SOUNDS):
        return "audio"
    return "audio" if data[:1] == b"\xff" and data[1:2] >= b"\xe0" else "image"


def _checked_sound(data: bytes) -> bytes:
    """Return a sound whose head is true: libmtmd takes memory for as many samples as that says.

    Source: dr_wav, dr_mp3 and dr_flac in miniaudio.h.
    """
    if data.startswith(b"RIFF"):
        return _checked_wav(data)
    start = at = _after_id3(data, 0)
    while (end := _after_id3(data, at)) > at:
        at = end
    if data.startswith(b"fLaC", at):
        bits = int.from_bytes(data[at + 18 : at + 26], "big")
        _check_length(bits >> 44, bits & (1 << 36) - 1)
        return data
    return _checked_mp3(data, start)


def _checked_mp3(data: bytes, start: int) -> bytes:
    """Return an MP3 whose tag does not say more frames than there is room for.

    In one of 200 files of 20 MB the sound looks like such a tag somewhere. llama.cpp looks for one
    in the first frame that it can decode; later, another bit in the sound keeps it from that.
    """
    chances = []
    for match in re.compile(b"Xing|Info").finditer(data, start):
        at = match.end()
        has_count = int.from_bytes(data[at : at + 4], "big") & 1
        frames = int.from_bytes(data[at + 4 : at + 8], "big") if has_count else 0
        if frames > len(data) // _LEAST_FRAME:
            chances.append(at - 1)
            if at < start + _MOST_FIRST or len(chances) > _MOST_CHANCES:
                raise UsageError("is a damaged sound")
    if chances:
        changed = bytearray(data)
        for at in chances:
            changed[at] ^= 1
        return bytes(changed)
    return data


def _after_id3(data: bytes, at: int) -> int:
    """Return where a tag of ID3 ends, which may hold any text and picture; ``at`` without one."""
    if data[at : at + 3] != b"ID3" or len(data) < at + 10:
        return at
    size = 0
    for byte in data[at + 6 : at + 10]:
        size = size << 7 | byte & 0x7F
    return at + 10 + size


_LEAST_FRAME = 24
"""Bytes of an MP3's frame: 8 kbit/s at 24 kHz."""
_MOST_FIRST = 1 << 16
"""Bytes before which the first frame ends in all but made-up files."""
_MOST_CHANCES = 4
_PLAIN_WAV = (1, 3, 6, 7, 0xFFFE)
"""PCM, floats, A-law, mu-law, and those with a longer head."""


def _checked_wav(data: bytes) -> bytes:
    at, frame, rate = 12, 0, 0
    while at + 8 <= len(data) and data[at : at + 4] != b"data":
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if data[at : at + 4] == b"fmt " and not frame:
            kind, channels = struct.unpack_from("<HH", data[at + 8 : at + 12].ljust(4, b"\0"))
            rate = int.from_bytes(data[at + 12 : at + 16], "little")
            bits = int.from_bytes(data[at + 22 : at + 24], "little")
            frame = channels * bits // 8 if kind in _PLAIN_WAV else 0
        at += 8 + size + size % 2
    rest = len(data) - at - 8
    if not frame or rest < frame:
        raise UsageError("is a damaged sound, or not plain PCM")
    _check_length(rate, rest // frame)
    size = min(int.from_bytes(data[at + 4 : at + 8], "little"), rest)
    return data[: at + 4] + struct.pack("<I", size) + data[at + 8 :]


def _check_length(rate: int, samples: int) -> None:
    if rate not in _RATES:
        raise UsageError("is a damaged sound")
    if samples > rate * _MOST_SECONDS:
        what = f"lasts {samples // rate} s, a sound may take {_MOST_SECONDS}"
        raise ResourceError(what)
