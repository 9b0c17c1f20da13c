"""Counts the signals that a workflow dropped; both workflows' cards tell them."""

from datetime import datetime

from proto.temporal.dropped import DroppedSignals


def one_more(before: DroppedSignals | None, name: str, reason: str, now: datetime) -> DroppedSignals:
    """Count one more dropped signal."""
    return DroppedSignals(before.count + 1 if before else 1, name, reason, now)
