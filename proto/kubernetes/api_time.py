"""How the API writes a time: RFC 3339 in UTC, in whole seconds. Asked wherever something is told to it in its own words."""

from datetime import UTC, datetime


def api_time(at: datetime) -> str:
    """Write a time."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
