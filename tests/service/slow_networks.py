"""A way to a database that can be made slow, cut, or led to another one."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread


class Way:
    """A port of this machine that leads to the socket of a PostgreSQL server."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.delay = 0.0  # seconds for whatever is sent, in each direction
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        Thread(target=self._accept, daemon=True).start()

    def address(self, database: str) -> str:
        """The address of a database by this way, from the one without it."""
        name = database.split("?")[0].rsplit("/", 1)[1]
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def cut(self) -> None:
        """All connections end."""
        while self._open:
            each = self._open.pop()
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                there = socket.socket(socket.AF_UNIX)
                try:
                    there.connect(str(self.target))
                except OSError:
                    here.close()
                    there.close()
                    continue
                self._open += [here, there]
                for pair in ((here, there), (there, here)):
                    Thread(target=self._hand_on, args=pair, daemon=True).start()

    def _hand_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(65536):
                if self.delay:
                    time.sleep(self.delay)
                target.sendall(part)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
