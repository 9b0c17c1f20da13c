"""What went wrong with a call to the API server, sorted by what the caller may do.

Apart from `api_server`, so that who only sorts errors need not load an HTTP client of 25 MB.
"""

from datetime import timedelta
from http import HTTPStatus


class ApiAway(Exception):
    """The API server did not answer, or not now (5xx, 429): the call may or may not have been carried out."""

    def __init__(self, message: str, retry_after: timedelta | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """What it answered; None: nothing. With 500 it may be this one call that fails, as by a webhook."""
        self.retry_after = retry_after
        """How long the server wants to be left alone; None: it did not say."""


class ApiRefused(Exception):
    """The API server said no; repeating the same call does not help unless something else changes."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        """The API's word: NotFound, Conflict, AlreadyExists, Forbidden, Expired …"""

    @property
    def not_found(self) -> bool:
        """Say whether there is no such object."""
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def conflict(self) -> bool:
        """Say whether the object is another one, or a newer one, than we meant."""
        return self.status == HTTPStatus.CONFLICT

    @property
    def gone(self) -> bool:
        """Say whether a resourceVersion is too old to go on from."""
        return self.status == HTTPStatus.GONE or self.reason == "Expired"
