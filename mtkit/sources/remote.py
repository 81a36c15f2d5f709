"""Files on a server, of which only the head is fetched.

A GGUF is fetched in ranges until its tensor table is complete, of safetensors the header, any other
file completely. The rest reads as zeros in a sparse file of the true length, against which offsets
are checked; nothing may look at tensor data. http and https need no package (responses are read up
to a bound, which no client library would keep); other schemes are fsspec's.
"""

from __future__ import annotations

import mmap

from mtkit.base.binary import Source
from mtkit.errors import FormatError, MissingExtra, ResourceError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.sources.http_ranges import Fetch

PIECE_BYTES = 3 << 18
"""Of one request: less than 1 MB is fetched in vain."""
MOST_BYTES = 1 << 26
SECONDS = 20.0
"""For a connection, and for each response."""
_LONGEST = 1 << 46
"""Bytes of a file; no file system allows a longer sparse file."""
_CUT = frozenset({"truncated", "count"})
"""Rules that a GGUF breaks whose rest is not fetched yet."""
_MORE = "--max-fetch N allows more; or download the file and name it"
_EXTRAS = {"hf": "hub", "s3": "remote"}


def is_remote(name: str) -> bool:
    """Tell an address from a path."""
    scheme, separator, _ = name.partition("://")
    return bool(separator) and scheme.isalnum()


def open_source(name: str, *, most: int = MOST_BYTES) -> Source:
    """Open a path, or the head of the file at an address."""
    return open_remote(name, most=most) if is_remote(name) else Source.open(name)


def open_remote(address: str, *, most: int = MOST_BYTES, seconds: float = SECONDS) -> Source:
    """Fetch the head of a file: ``https://``, ``hf://``, ``s3://`` or another fsspec address."""
    scheme = address.partition("://")[0].lower()
    if scheme in ("http", "https"):
        from mtkit.sources.http_ranges import fetcher  # late: http.client takes long to import

        fetch = fetcher(address, seconds)
    else:
        fetch = _fsspec(address, scheme)
    begin, size = fetch(0, min(PIECE_BYTES, most))
    if not 0 < size <= _LONGEST:
        raise FormatError(f"has a reported size of {size} bytes", source=address)
    head = bytearray(begin)
    while (length := _missing(head, size)) > 0:
        if len(head) >= most:
            what = f"has a header of more than {most} bytes"
            raise ResourceError(what, source=address, hint=_MORE)
        more, now = fetch(len(head), min(length, most - len(head)))
        if now != size:
            what = f"was {size} bytes long and is now {now}"
            raise FormatError(what, source=address, hint="it changed in the meantime; try again")
        head += more
    return Source(address, sparse(address, head, size))


def _missing(head: bytearray, size: int) -> int:
    """Return how many bytes to fetch next; 0: the head is complete."""
    left = size - len(head)
    if head[:4] == b"GGUF":
        from mtkit.gguf import open_gguf

        file = open_gguf(Source("", bytes(head)), strict=False)
        is_cut = not file.is_whole and file.findings[-1].rule.code in _CUT
        return min(left, PIECE_BYTES) if is_cut else 0
    end = 8 + int.from_bytes(head[:8], "little")
    if head[8:9] == b"{" and end <= size:  # safetensors
        return min(max(end - len(head), 0), PIECE_BYTES)
    return min(left, PIECE_BYTES)


def sparse(address: str, head: bytearray, size: int) -> mmap.mmap:
    """Return the head of a file followed by zeros, which take no room."""
    import tempfile

    try:
        with tempfile.TemporaryFile() as file:
            file.write(head)  # raises where the disk is full; a mapping would end the process
            file.flush()
            file.truncate(size)
            mapped = mmap.mmap(file.fileno(), size)
    except (OSError, OverflowError, ValueError) as error:
        what = f"is {size} bytes long, which cannot be mapped: {error}"
        raise ResourceError(what, source=address) from None
    return mapped


def _fsspec(address: str, scheme: str) -> Fetch:
    from mtkit.sources.http_ranges import format_error

    extra = _EXTRAS.get(scheme, "remote")
    missing = MissingExtra(
        f"{scheme}:// needs optional packages", source=address, hint=f'pip install "mtkit[{extra}]"'
    )
    if scheme in ("file", "local"):
        raise UsageError("is a file on this machine", source=address, hint="give its path")
    try:
        import fsspec
    except ImportError:
        raise missing from None
    try:
        file = fsspec.open(address, "rb", cache_type="none").open()
    except ImportError:
        raise missing from None
    except FileNotFoundError:
        raise UsageError("no such file", source=address) from None
    except Exception as error:  # noqa: BLE001  each file system has errors of its own
        raise UsageError(f"cannot be fetched: {format_error(error)}", source=address) from None

    def fetch(offset: int, count: int) -> tuple[bytes, int]:
        try:
            size = int(file.size)
            length = max(min(count, size - offset), 0)
            file.seek(offset)
            data: bytes = file.read(length)
        except Exception as error:  # noqa: BLE001  as above
            raise UsageError(f"cannot be fetched: {format_error(error)}", source=address) from None
        if len(data) != length:
            what = f"gives {len(data)} bytes and says {length}"
            raise FormatError(what, source=address, offset=offset)
        return data, size

    return fetch
