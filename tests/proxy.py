"""A TCP proxy that loses or delays replies, or refuses, as a test says."""

import contextlib
import random
import socket
import threading
import time
from types import TracebackType
from typing import Self


class Proxy:
    """Passes connections on to a server.

    Parameters
    ----------
    host, port
        The server.
    lost
        Share of replies in whose stead the connection closes: what was asked for has been done.
    seed
        Of the choice.

    Attributes
    ----------
    port
        Where it listens.
    refuse
        Set it to close every connection, old and new, without asking the server.
    delay_s
        Set it to keep every reply back for so long.
    lost
        As given; may be changed.
    dropped, refused
        Connections that were closed for one reason or the other.
    """

    def __init__(self, host: str, port: int, lost: float = 0.0, seed: int = 0) -> None:
        self.refuse = False
        self.delay_s = 0.0
        self.lost = lost
        self.dropped = 0
        self.refused = 0
        self._server = (host, port)
        self._rng = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse = True
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuse:
                self.refused += 1
                client.close()
                continue
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, replies: bool) -> None:
        try:
            while data := source.recv(65536):
                if self.refuse:
                    self.refused += 1
                    break
                if replies and self._rng.random() < self.lost:
                    self.dropped += 1
                    break
                if replies and self.delay_s:
                    time.sleep(self.delay_s)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
