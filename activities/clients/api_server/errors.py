"""Errors of calls to the API server, sorted by what the caller may do.

Apart from `api_server`, so that code that only handles errors does not load an HTTP client of 25 MB.
"""

from datetime import timedelta
from http import HTTPStatus


class ApiAway(Exception):
    """The API server did not answer, or not now (5xx, 429); the call may or may not have been carried out."""

    def __init__(self, message: str, retry_after: timedelta | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The status of its answer; None: no answer. A 500 may concern this call only, as from a webhook."""
        self.retry_after = retry_after
        """How long the server wants no further call; None: it did not say."""


class ApiRefused(Exception):
    """The API server refused the call; repeating it does not help unless something else changes."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        """The API's reason: NotFound, Conflict, AlreadyExists, Forbidden, Expired …"""

    @property
    def not_found(self) -> bool:
        """Report whether the object does not exist."""
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def conflict(self) -> bool:
        """Report whether the object was replaced or changed meanwhile."""
        return self.status == HTTPStatus.CONFLICT

    @property
    def gone(self) -> bool:
        """Report whether a resourceVersion is too old to continue from."""
        return self.status == HTTPStatus.GONE or self.reason == "Expired"
