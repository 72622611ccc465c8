"""The socket of a service, bound before anything is announced, so that a port in use is said at once."""

from __future__ import annotations

import errno
import socket

from rankloop.core.errors import Conflict, InvalidInput
from rankloop.service.settings import Settings


def bound_socket(settings: Settings) -> socket.socket:
    """A socket at the address of the settings; it does not listen yet."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # the protocol is named because asyncio sends small answers at once only where it sees that it is TCP
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise Conflict(f"port {settings.port} is in use: choose another with --port") from None
        raise InvalidInput(f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}") from None
    return bound


def address_of(settings: Settings, bound: socket.socket) -> str:
    """The URL of a bound socket; its port is known even where the settings leave it to the machine."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{bound.getsockname()[1]}"
