"""A client of the API server for tests: synchronous, plain JSON, independent of the code under test."""

import contextlib
import http.client
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tests.cluster.certificates import Signed
from tests.node.tempolet_node import PATIENCE
from tests.waiting import wait_until

LOOKS: Final = (0.02, 0.05)
MERGE_PATCH: Final = "application/merge-patch+json"


class Refused(Exception):
    """The API server refused the request."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status} {body.get('message') if isinstance(body, dict) else body}")
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True)
class Api:
    """Calls with one identity; each on a new connection, so that none is left open.

    The looks of one wait share a connection, for a handshake takes client and server several times the CPU time of the call.
    """

    port: int
    authority: Path
    identity: Signed | None = None

    def call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", patience: float = PATIENCE
    ) -> Any:
        """Make a call and return its JSON, or else its text; raises Refused and OSError."""
        with contextlib.closing(self._connection(patience)) as connection:
            return _answered(connection, method, path, body, kind)

    def get(self, path: str) -> Any:
        """Read an object or a list."""
        return self.call("GET", path)

    def find(self, path: str) -> Any:
        """Read an object; None if there is none."""
        try:
            return self.call("GET", path)
        except Refused as refused:
            if refused.status != http.HTTPStatus.NOT_FOUND:
                raise
            return None

    def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """Create an object in a collection."""
        return self.call("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """Change an object with a merge patch."""
        return self.call("PATCH", path, body, kind=MERGE_PATCH)

    def delete(self, path: str, **options: Any) -> Any:
        """Delete an object with DeleteOptions; one that is gone is a success."""
        try:
            return self.call("DELETE", path, options or None)
        except Refused as refused:
            if refused.status != http.HTTPStatus.NOT_FOUND:
                raise
            return None

    def until(
        self, path: str, holds: Callable[[Any], Any], what: str = "", patience: float = PATIENCE, *, gone: bool = False
    ) -> Any:
        """Poll an object until it satisfies a condition (or is gone); raises TimeoutError with its last state."""
        found: Any = None

        def is_so() -> bool:
            nonlocal found
            found = self._looked(connection, path)
            return found is None if gone else found is not None and bool(holds(found))

        def last() -> str:
            return f"{what or path}; it is:\n{json.dumps(found, indent=1)[-4000:]}"

        with contextlib.closing(self._connection(PATIENCE)) as connection:
            wait_until(is_so, last, patience, LOOKS)
        return found

    def _looked(self, connection: http.client.HTTPSConnection, path: str) -> Any:
        """Read an object, None if there is none, on a connection that may have ended since the last look."""
        for was_open in (connection.sock is not None, False):
            try:
                return _answered(connection, "GET", path)
            except Refused as refused:
                if refused.status != http.HTTPStatus.NOT_FOUND:
                    raise
                return None
            except (OSError, http.client.HTTPException):
                connection.close()
                if not was_open:
                    raise
        raise AssertionError

    def _connection(self, patience: float) -> http.client.HTTPSConnection:
        files = (self.authority, self.identity.certificate, self.identity.key) if self.identity else (self.authority,)
        context = _context(self.authority, self.identity, *(file.stat().st_mtime_ns for file in files))
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=patience)


@lru_cache(maxsize=64)
def _context(authority: Path, identity: Signed | None, *_written: int) -> ssl.SSLContext:
    """Read both, again where the files were written since."""
    context = ssl.create_default_context(cafile=str(authority))
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


def _answered(
    connection: http.client.HTTPSConnection, method: str, path: str, body: Any = None, kind: str = "application/json"
) -> Any:
    data = None if body is None else json.dumps(body).encode()
    connection.request(method, path, data, {"Content-Type": kind, "Accept": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    try:
        said = json.loads(answer)
    except ValueError:
        said = answer.decode(errors="replace")
    if response.status >= http.HTTPStatus.BAD_REQUEST:
        raise Refused(response.status, said)
    return said
