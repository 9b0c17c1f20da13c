"""Converts what the poller sends to workflows to JSON without pydantic; the poller reads nothing back.

pydantic would cost 9 MiB in a process that only writes PodStart and signals. The worker reads with `receiving`;
tests/worker/payloads/test_payloads.py checks that it reads the same values.
"""

from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any, Final

from temporalio.converter import (
    AdvancedJSONEncoder,
    JSONPlainPayloadConverter,
)

from worker.payloads.refused import with_refusals
from worker.payloads.shapes import ShapeConverter


class _Shapes(AdvancedJSONEncoder):
    """Encodes dataclasses by their fields, and durations as ISO 8601."""

    def default(self, o: Any) -> Any:
        if isinstance(o, timedelta):
            return f"{'-' if o < timedelta() else ''}PT{abs(o).total_seconds():.6f}S"
        if is_dataclass(o) and not isinstance(o, type):
            return {field.name: getattr(o, field.name) for field in fields(o)}
        return super().default(o)


_CONVERTERS: Final = with_refusals(JSONPlainPayloadConverter(encoder=_Shapes))


class SendingConverter(ShapeConverter):
    """The standard library's JSON, with refusals and the names of types."""

    def __init__(self) -> None:
        super().__init__(*_CONVERTERS)
