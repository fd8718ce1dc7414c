"""Proxy before Postgres that loses a COMMIT."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

Fault = Literal["call", "answer", "hang"]
"""Loses the call, or its answer, or keeps the answer and the connection."""


class CommitProxy:
    """TCP proxy on a port of its own. `fail_next` applies to the next COMMIT only."""

    def __init__(self, database_url: str) -> None:
        target = urlsplit(database_url)
        self._target = (target.hostname or "127.0.0.1", target.port or 5432)
        self._fault: Fault | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        port = self._listener.getsockname()[1]
        account = target.netloc.rpartition("@")[0]
        self.url = urlunsplit(target._replace(netloc=f"{account}@127.0.0.1:{port}"))
        threading.Thread(target=self._accept, daemon=True).start()

    def fail_next(self, fault: Fault) -> None:
        self._fault = fault

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._sockets += [client, server]
            lost: list[Fault] = []
            for source, sink in ((client, server), (server, client)):
                threading.Thread(
                    target=self._pump, args=(source, sink, lost, source is client), daemon=True
                ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, lost: list[Fault], from_client: bool) -> None:
        try:
            while data := source.recv(65536):
                if from_client and self._fault is not None and b"commit" in data.lower():
                    lost.append(self._fault)
                    self._fault = None
                    if lost == ["call"]:
                        break
                if not from_client and lost == ["answer"]:
                    break
                if from_client or not lost:
                    sink.sendall(data)
        except OSError:
            pass
        _shut_down(source, sink)
        # The other thread closes the sink.
        source.close()

    def close(self) -> None:
        # A thread in `accept` keeps the port open until it is shut down.
        _shut_down(self._listener, *self._sockets)
        self._listener.close()


def _shut_down(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
