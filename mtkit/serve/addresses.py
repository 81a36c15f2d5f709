"""The addresses that a server listens on: a socket for each, bound before a model is loaded."""

from __future__ import annotations

import errno
import os
import socket

from mtkit.errors import UsageError
from mtkit.serve.access import hosts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.settings import ServeSettings


def bind_sockets(settings: ServeSettings) -> list[socket.socket]:
    """Return a socket for each address, bound and not yet listening; close them."""
    sockets: list[socket.socket] = []
    port = settings.port
    try:
        for host in hosts_of(settings):
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            bound = socket.socket(family, kind, protocol)
            sockets.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind(address)
            port = bound.getsockname()[1]  # the others take the one that was free
    except (OSError, UnicodeError) as error:
        for bound in sockets:
            bound.close()
        raise address_error(host, port, error) from None
    return sockets


def address_error(host: str, port: int, cause: OSError | UnicodeError) -> UsageError:
    """Return the error for an address that cannot be listened on."""
    what, hint = "cannot be listened on", ""
    if isinstance(cause, OSError):
        is_name = isinstance(cause, socket.gaierror)
        reason = cause.strerror if is_name else os.strerror(cause.errno or 0)
        what = f"{what}: {reason}"
        hint = "choose another --port" if cause.errno == errno.EADDRINUSE else ""
    return UsageError(what, field=f"{host}:{port}", hint=hint)
