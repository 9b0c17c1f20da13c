"""Converts every type of `proto/temporal/` to JSON and back, by pydantic: for the worker and the commands."""

from typing import Final

from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter

from worker.payloads.refused import with_refusals
from worker.payloads.shapes import ShapeConverter

_CONVERTERS: Final = with_refusals(PydanticJSONPlainPayloadConverter())
"""One set a process: the SDK creates a converter for each workflow, and building pydantic's adapters costs more than a
workflow task."""


class ReceivingConverter(ShapeConverter):
    """pydantic's converter with type adapters shared between workflows; raises refusals, and compares types."""

    def __init__(self) -> None:
        super().__init__(*_CONVERTERS)
