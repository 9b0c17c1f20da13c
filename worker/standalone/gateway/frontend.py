"""Temporal's frontend on a unix socket: HTTP CONNECT as the SDK's core asks for it, or gRPC at once.

Temporal's SDK reaches a unix socket only as an HTTP proxy; the `temporal` command and Python's gRPC speak to it directly.
Whoever can open the socket may do anything, so its folder is root's.
"""

import socket
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from worker.standalone.gateway.carrying import carry
from worker.standalone.gateway.heads import BadHead, answer, read_head

CONNECT: Final = b"CONNECT "
CONNECTED: Final = b"HTTP/1.1 200 OK\r\n\r\n"
FIRST_WORDS_WITHIN: Final = 20.0


@dataclass(frozen=True, slots=True)
class Frontend:
    """The way to Temporal's gRPC port."""

    port: int

    def serve(self, caller: socket.socket) -> None:
        """Connect a caller with Temporal, whatever address it names."""
        asks = self._asks_to_connect(caller)
        try:
            server = socket.create_connection(("127.0.0.1", self.port))
        except OSError as error:
            if asks:
                caller.sendall(answer(HTTPStatus.SERVICE_UNAVAILABLE, f"Temporal does not listen: {error.strerror}"))
            return
        with server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if asks:
                caller.sendall(CONNECTED)
            carry(caller, server)

    @staticmethod
    def _asks_to_connect(caller: socket.socket) -> bool:
        """Read an HTTP CONNECT if the caller begins with one; raises OSError for one that is cut off."""
        caller.settimeout(FIRST_WORDS_WITHIN)
        first = caller.recv(len(CONNECT), socket.MSG_PEEK)
        caller.settimeout(None)
        if first != CONNECT:
            return False
        try:
            read_head(caller, FIRST_WORDS_WITHIN)  # the caller says nothing more before it is answered
        except BadHead as error:
            raise ConnectionAbortedError(str(error)) from error
        return True
