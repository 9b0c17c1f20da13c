"""Times as the API writes them: RFC 3339 in UTC, in whole seconds."""

from datetime import UTC, datetime


def api_time(at: datetime) -> str:
    """Write a time."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_api_time(text: object) -> datetime | None:
    """Read a time; None if there is none, or it is no time."""
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
