"""Every shape of `proto/temporal/` to JSON and back, by pydantic; for the worker, the commands and whoever reads."""

from typing import Final

from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import CompositePayloadConverter

from worker.payloads.refused import with_refusals

_CONVERTERS: Final = with_refusals(PydanticJSONPlainPayloadConverter())
"""One set a process: the SDK makes a converter for each workflow, and building pydantic's adapters costs more than a step."""


class ReceivingConverter(CompositePayloadConverter):
    """pydantic's converter, sharing its type adapters between workflows, and raising refusals."""

    def __init__(self) -> None:
        super().__init__(*_CONVERTERS)
