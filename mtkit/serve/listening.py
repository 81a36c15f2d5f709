"""The addresses that a server listens on."""

from __future__ import annotations

import errno
import os
import socket

from mtkit.errors import UsageError
from mtkit.serve.access import hosts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.settings import ServeSettings


def bound(settings: ServeSettings) -> list[socket.socket]:
    """Return a socket for each address, bound and not yet listening; close them.

    Raises:
        UsageError: One cannot be had.
    """
    made: list[socket.socket] = []
    port = settings.port
    try:
        for host in hosts_of(settings):
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            one = socket.socket(family, kind, protocol)
            made.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
            port = one.getsockname()[1]  # the others take the one that was free
    except (OSError, UnicodeError) as error:
        for one in made:
            one.close()
        raise refused(host, port, error) from None
    return made


def refused(host: str, port: int, cause: OSError | UnicodeError) -> UsageError:
    """Return what is said of an address that cannot be had."""
    what, hint = "cannot be listened on", ""
    if isinstance(cause, OSError):
        is_name = isinstance(cause, socket.gaierror)
        said = cause.strerror if is_name else os.strerror(cause.errno or 0)
        what = f"{what}: {said}"
        hint = "choose another --port" if cause.errno == errno.EADDRINUSE else ""
    return UsageError(what, field=f"{host}:{port}", hint=hint)
