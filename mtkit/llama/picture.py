"""Pictures are decoded in a process of their own: stb_image in libmtmd, which a picture may crash.

The child loads libmtmd alone and decodes one picture after the other, each from its length and
bytes to its width, height and pixels; 0 for a picture that it cannot read. It holds its own limits
of memory and of processor time, since others may keep the processors busy; the parent starts
another one. What a picture's header says of its size is judged before.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import struct
import sys
import threading
from contextlib import suppress

from mtkit.errors import ResourceError, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

MOST_PIXELS = 50_000_000
"""150 MB of them; a photo of a phone has 12 million to 50 million."""
_MOST_RATIO = 200
"""Of the sides: what the processors of Qwen's models take."""
_MEMORY = 1 << 30
"""Bytes that a picture may take while it is decoded: a JPEG of 50 million pixels takes 500 MB."""
_LARGE = 10_000_000
"""Pixels from which on that may not be enough: 16 bits in four channels take 21 bytes for each."""
_SECONDS = 20.0
"""Of a processor, for a picture."""
_MOST_WAIT = 600.0 if hasattr(signal, "setitimer") else _SECONDS
_START_SECONDS = 60.0
_ASK, _ANSWER = struct.Struct("<Qd"), struct.Struct("<II")
_SIGNS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"BM")


def main(path: str) -> None:
    """Decode pictures from stdin until it ends; the process's whole task.

    Args:
        path: The file of libmtmd.
    """
    with suppress(ImportError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    lib = ctypes.CDLL(path)

    class Options(ctypes.Structure):
        _fields_ = (
            ("fps", ctypes.c_float), ("folder", ctypes.c_char_p), ("interval", ctypes.c_int64),
        )  # fmt: skip

    class Loaded(ctypes.Structure):
        _fields_ = (("bitmap", ctypes.c_void_p), ("video", ctypes.c_void_p))

    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    lib.mtmd_helper_log_set(quiet, None)
    load, free = lib.mtmd_helper_bitmap_init_from_buf, lib.mtmd_bitmap_free
    load.restype, free.argtypes = Loaded, [ctypes.c_void_p]
    load.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_bool, Options]
    width, height, pixels = (
        getattr(lib, f"mtmd_bitmap_get_{name}") for name in ("nx", "ny", "data")
    )
    pixels.restype = ctypes.c_void_p
    for call in (width, height, pixels):
        call.argtypes = [ctypes.c_void_p]
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    stdout.write(_ANSWER.pack(1, 1))
    stdout.flush()
    limit = getattr(signal, "setitimer", None)  # not on Windows
    while len(head := stdin.read(_ASK.size)) == _ASK.size:
        size, seconds = _ASK.unpack(head)
        data = stdin.read(size)
        if limit is not None:
            limit(signal.ITIMER_PROF, seconds)  # the signal ends the process
        bitmap = load(None, data, len(data), False, Options()).bitmap
        if limit is not None:
            limit(signal.ITIMER_PROF, 0)
        sides = (width(bitmap), height(bitmap)) if bitmap else (0, 0)
        stdout.write(_ANSWER.pack(*sides))
        if 0 < sides[0] * sides[1] <= MOST_PIXELS:
            size = 3 * sides[0] * sides[1]
            stdout.write(memoryview((ctypes.c_uint8 * size).from_address(pixels(bitmap))))
        stdout.flush()
        if bitmap:
            free(bitmap)


class _Decoder:
    """The process, which one thread asks at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._child: Popen[bytes] | None = None

    def ask(self, data: bytes) -> tuple[int, int, bytearray]:
        """Return width, height and pixels; (0, 0) of what it cannot read."""
        child = self._child if self._child and self._child.poll() is None else self._start()
        timer = threading.Timer(_MOST_WAIT, child.kill)
        timer.start()
        try:
            assert child.stdin is not None
            child.stdin.write(_ASK.pack(len(data), _SECONDS))
            child.stdin.write(data)
            child.stdin.flush()
            width, height = _ANSWER.unpack(self._read(child, _ANSWER.size))
            size = 3 * width * height if width * height <= MOST_PIXELS else 0
            return width, height, self._read(child, size)
        except (OSError, EOFError):
            self.end()
            if timer.finished.is_set() or child.returncode == -getattr(signal, "SIGPROF", 0):
                raise ResourceError(f"takes more than {_SECONDS:g} s to decode") from None
            return 0, 0, bytearray()  # it crashed, or had no memory left
        except BaseException:
            self.end()
            raise
        finally:
            timer.cancel()

    def _start(self) -> Popen[bytes]:
        import subprocess

        from mtkit.base.process import command_line
        from mtkit.llama.shared_library import media_file

        self.end()
        try:
            self._child = child = subprocess.Popen(  # noqa: S603  this interpreter
                command_line(__name__, (media_file(),)),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
            timer = threading.Timer(_START_SECONDS, child.kill)
            timer.start()
            try:
                self._read(child, _ANSWER.size)
            finally:
                timer.cancel()
        except (OSError, EOFError):
            raise UnsupportedError("no process can be started that decodes pictures") from None
        return child

    @staticmethod
    def _read(child: Popen[bytes], size: int) -> bytearray:
        assert child.stdout is not None
        data = bytearray(size)
        left = memoryview(data)
        while left:
            count = child.stdout.readinto(left)  # type: ignore[attr-defined]
            if not count:
                raise EOFError
            left = left[count:]
        return data

    def end(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            with suppress(OSError), child:  # what it did not read cannot be written any more
                pass


_decoder = _Decoder()
atexit.register(_decoder.end)


def _forget() -> None:
    """Leave the process to the parent: this one is a fork of it."""
    global _decoder  # noqa: PLW0603
    _decoder = _Decoder()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def decode_picture(data: bytes) -> tuple[int, int, bytearray]:
    """Return width, height and the pixels of a picture, 3 bytes each.

    Raises:
        UsageError: It cannot be read.
        ResourceError: It is too large, or takes too long.
    """
    sides = check_picture(data)
    with _decoder.lock:
        width, height, pixels = _decoder.ask(data)
    if not width or not height:
        is_large = sides and sides[0] * sides[1] > _LARGE
        more = ", or takes more than 1 GiB to decode" if is_large else ""
        raise UsageError(f"is a damaged picture{more}")
    _check_size(width, height)
    return width, height, pixels


def check_picture(data: bytes) -> tuple[int, int] | None:
    """Return the sides as the header has them; refuse what is no picture, or a too large one."""
    if not data.startswith(_SIGNS):
        if not data:
            raise UsageError("is empty")
        for offset, sign, name in _FOREIGN:
            if data.startswith(sign, offset):
                raise UnsupportedError(f"is {name}, which llama.cpp does not read", hint=_READABLE)
        raise UsageError("is neither a picture nor a sound that llama.cpp reads", hint=_READABLE)
    sides = size_of(data)
    if sides:
        _check_size(*sides)
    return sides


_READABLE = "it reads PNG, JPEG, GIF and BMP, WAV, MP3 and FLAC"
_FOREIGN = (
    (8, b"WEBP", "WebP"), (4, b"ftypavi", "AVIF"), (4, b"ftypM4A", "an M4A"),
    *((4, b"ftyp" + brand, "HEIC") for brand in (b"hei", b"hev", b"mif1", b"msf1")),
    (4, b"ftyp", "an MP4"), (0, b"II*\0", "TIFF"), (0, b"MM\0*", "TIFF"), (0, b"%PDF", "a PDF"),
    (0, b"<svg", "SVG"), (0, b"<?xml", "XML or SVG"), (0, b"\xff\x0a", "JPEG XL"),
    (0, b"\0\0\0\x0cJXL", "JPEG XL"), (0, b"\0\0\1\0", "an icon"), (0, b"8BPS", "a PSD"),
    (0, b"OggS", "Ogg"), (0, b"\x1aE\xdf\xa3", "Matroska or WebM"),
)  # fmt: skip
"""Where the sign of a form is, the sign, and what it is called."""


def _check_size(width: int, height: int) -> None:
    what = f"has {width} x {height} pixels"
    if width * height > MOST_PIXELS:
        hint = "make it smaller: models see at most a few million pixels"
        raise ResourceError(f"{what}, the limit is {MOST_PIXELS:,}", hint=hint)
    if max(width, height) > _MOST_RATIO * min(width, height):
        raise UsageError(f"{what}: a side is over {_MOST_RATIO} times the other")


def size_of(data: bytes) -> tuple[int, int] | None:
    """Return width and height, as the header of a picture says; None where it does not.

    Source: PNG 3, 11.2.1; ITU T.81, B.1.1 and B.2.2; GIF 89a, 18; BITMAPINFOHEADER of Windows.
    """
    sides: tuple[int, int] = (0, 0)
    try:
        if data.startswith(b"\x89PNG"):
            sides = struct.unpack_from(">II", data, 16) if data[12:16] == b"IHDR" else sides
        elif data.startswith(b"GIF8"):
            sides = struct.unpack_from("<HH", data, 6)
        elif data.startswith(b"BM"):
            is_old = data[14] == _OLD_BMP
            width, height = struct.unpack_from("<HH" if is_old else "<ii", data, 18)
            sides = abs(width), abs(height)  # rows from top to bottom have a negative height
        else:
            sides = _jpeg_size(data)
    except (struct.error, IndexError):
        return None
    return sides if all(sides) else None


_OLD_BMP = 12
"""Bytes of the header of OS/2, with sides of two bytes."""
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of JPEG that begin a frame."""
_BARE = frozenset(range(0xD0, 0xD9)) | {0x01}
"""Markers without a length."""


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = data.find(b"\xff", 2)
    while at >= 0:
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        if marker == 0xFF:  # a filler
            at += 1
            continue
        (length,) = (0,) if marker in _BARE else struct.unpack_from(">H", data, at + 2)
        at = data.find(b"\xff", at + 2 + length)
    return 0, 0
