"""The shapes that the poller tells workflows, to JSON; it never reads one back, so it does without pydantic.

pydantic would be 9 MiB of a process that only writes PodStart and signals. The worker reads with `reading`, and
tests/worker/payloads/test_payloads.py holds that it reads the same.
"""

from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any, Final

from temporalio.converter import (
    AdvancedJSONEncoder,
    CompositePayloadConverter,
    JSONPlainPayloadConverter,
)

from worker.payloads.refused import with_refusals


class _Shapes(AdvancedJSONEncoder):
    """Writes what JSON has no word for: shapes by their fields, durations as ISO 8601 has them."""

    def default(self, o: Any) -> Any:
        if isinstance(o, timedelta):
            return f"{'-' if o < timedelta() else ''}PT{abs(o).total_seconds():.6f}S"
        if is_dataclass(o) and not isinstance(o, type):
            return {field.name: getattr(o, field.name) for field in fields(o)}
        return super().default(o)


_CONVERTERS: Final = with_refusals(JSONPlainPayloadConverter(encoder=_Shapes))


class SendingConverter(CompositePayloadConverter):
    """The standard library's JSON, and refusals as everywhere."""

    def __init__(self) -> None:
        super().__init__(*_CONVERTERS)
