"""Ranges of a file over HTTP, whatever the server does.

No response may take longer than the timeout or have more bytes than requested. The standard
library's own timeout starts anew with each byte, which a server can drip for ever: a header line,
or one "100 Continue" after the other. So every read of a response waits for the rest of the time.
"""

from __future__ import annotations

import io
import re
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from socket import SOCK_STREAM, create_connection, getaddrinfo
from ssl import create_default_context
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from mtkit.base.escape import quoted, shown
from mtkit.errors import FormatError, ResourceError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket
    from typing import Any

    Fetch = Callable[[int, int], tuple[bytes, int]]
    """(offset, number of bytes) -> those bytes, and the length of the whole file."""

_SAVE = "download the file and name it"


class _Timed(io.RawIOBase):
    """Reads from a socket within a total time."""

    def __init__(self, sock: socket, seconds: float) -> None:
        self._socket, self._raw = sock, sock.makefile("rb", 0)
        self._end = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(HTTPResponse):
    """A response whose last byte, too, comes within the timeout of the connection."""

    def __init__(self, sock: socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self.fp.close()
        self.fp = io.BufferedReader(_Timed(sock, sock.gettimeout() or 0.0))


class _Connection(HTTPConnection):
    response_class = _Response


class _SecureConnection(HTTPSConnection):
    response_class = _Response


class _Http(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Connection, req)


class _Https(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, req)


class _Redirects(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: Any, *rest: Any) -> Request | None:
        fp.read = bytes  # the library would read the whole body, however long it is
        return super().redirect_request(req, fp, *rest)


def fetcher(address: str, seconds: float) -> Fetch:
    """Return a function that fetches ranges of the file at an http or https address."""
    opener = OpenerDirector()  # without other handlers no redirect leads to a file
    for handler in (ProxyHandler, _Http, _Https, HTTPErrorProcessor, _Redirects,
                    HTTPDefaultErrorHandler):  # fmt: skip
        opener.add_handler(handler())

    def fetch(offset: int, count: int) -> tuple[bytes, int]:
        headers = {"Range": f"bytes={offset}-{offset + count - 1}", "Accept-Encoding": "identity"}
        try:
            headers["User-Agent"] = "mtkit"
            request = Request(address, headers=headers)  # noqa: S310  the opener has http only
            response = opener.open(request, timeout=seconds)
            if response is None:
                raise UsageError(
                    "redirects to an address that is not http or https", source=address
                )
            with response:
                return _read_range(response, address, offset, count)
        except HTTPError as error:
            error.close()
            what = f"the server says {error.code}"
            if error.code < 400:  # to itself, to no address, or away from http
                what = f"it is redirected to {quoted(error.headers.get('Location', ''))}"
            raise UsageError(f"cannot be fetched: {what}", source=address) from None
        except (URLError, HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                what = f"the server did not answer within {seconds:g} s"
                raise ResourceError(what, source=address) from None
            raise UsageError(f"cannot be fetched: {format_error(reason)}", source=address) from None

    return fetch


def fetch_public(address: str, most: int, seconds: float) -> bytes:
    """Return what is at an http or https address that anybody could reach, and no redirect.

    The address of the machine is looked up once, and that one is asked: a name that leads elsewhere
    the next time leads nowhere.

    Raises:
        UsageError: It is not there, longer than ``most`` bytes, or not on the public network.
        ResourceError: It takes too long.
    """
    parts = urlsplit(address)
    try:
        secure, host, port = parts.scheme.lower() == "https", parts.hostname or "", parts.port
        end = time.monotonic() + seconds
        rows = getaddrinfo(host, port or (443 if secure else 80), type=SOCK_STREAM)
        if not all(is_public(str(row[4][0])) for row in rows):
            raise UsageError(f"{quoted(host)} is not on the public network")
        place = rows[0][4]
        number = str(place[0])
        connection = _Connection(host, port, timeout=seconds)
        connection.sock = create_connection((number, int(place[1])), seconds)
        if secure:
            context = create_default_context()
            connection.sock = context.wrap_socket(connection.sock, server_hostname=host)
        connection.sock.settimeout(max(end - time.monotonic(), 0.1))
        with closing(connection):
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", path, headers={"User-Agent": "mtkit"})
            response = connection.getresponse()
            if response.status != 200:
                raise UsageError(f"cannot be fetched: the server says {response.status}")
            data = response.read(most + 1)
    except TimeoutError:
        raise ResourceError(f"the server did not answer within {seconds:g} s") from None
    except (HTTPException, OSError, ValueError) as error:
        raise UsageError(f"cannot be fetched: {format_error(error)}") from None
    if len(data) > most:
        raise UsageError(f"has more than {most} bytes")
    return data


_UNICAST = IPv6Network("2000::/3")
"""What IPv6 gives to machines that anybody can reach (RFC 4291); the rest is of other kinds."""
_TRANSLATED = IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96")
"""IPv4 addresses in IPv6: as sockets spell them, and by NAT64 (RFC 6052)."""
_NOT_PUBLIC = tuple(IPv6Network(text) for text in ("2001::/23", "2002::/16", "3fff::/20"))
"""Protocols, tunnels to an IPv4 address, examples: to some releases of Python they are global."""


def is_public(number: str) -> bool:
    """Whether an IP address is one of a machine that anybody could reach."""
    address: IPv4Address | IPv6Address = ip_address(number.partition("%")[0])
    if isinstance(address, IPv6Address):
        if any(address in network for network in _TRANSLATED):
            address = IPv4Address(int(address) & 0xFFFFFFFF)
        elif address not in _UNICAST or any(address in network for network in _NOT_PUBLIC):
            return False
    relays = address.packed[:3] == bytes((192, 88, 99))  # into tunnels (RFC 7526)
    return address.is_global and not address.is_multicast and not relays


def _read_range(response: Any, address: str, offset: int, count: int) -> tuple[bytes, int]:
    """Read the response to a request for a range, and no byte more."""
    if response.status != 206:
        what = "the server gives no ranges of the file, only all of it"
        raise UsageError(what, source=address, hint=_SAVE)
    text = response.headers.get("Content-Range", "")
    match = re.fullmatch(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})", text.strip(), re.ASCII)
    begin, last, size = map(int, match.groups()) if match else (-1, -1, -1)
    length = min(count, size - offset)
    if begin != offset or last != offset + length - 1:
        what = f"asked for bytes {offset} to {offset + count - 1}, the server gives {text!r}"
        raise FormatError(what, source=address, hint=_SAVE)
    data = bytearray()
    while len(data) < length and (piece := response.read1(length - len(data))):
        data += piece
    if len(data) < length:
        what = f"the server gives {len(data)} bytes and says {length}"
        raise FormatError(what, source=address, offset=offset)
    return bytes(data), size


def format_error(error: object) -> str:
    """Return an error's message on one line, or its class where it has none."""
    return shown(" ".join(str(error).split())) or type(error).__name__
