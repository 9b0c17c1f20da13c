"""Every shape of `proto/temporal/` to JSON and back, by pydantic; for the worker, the commands and whoever reads."""

from typing import Final

from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import CompositePayloadConverter, DefaultPayloadConverter, JSONPlainPayloadConverter

from worker.payloads.refused import RefusedPayloads

_CONVERTERS: Final = (
    *(
        converter if not isinstance(converter, JSONPlainPayloadConverter) else PydanticJSONPlainPayloadConverter()
        for converter in DefaultPayloadConverter.default_encoding_payload_converters
    ),
    RefusedPayloads(),
)
"""One set a process: the SDK makes a converter for each workflow, and building pydantic's adapters costs more than a step."""


class ReadingConverter(CompositePayloadConverter):
    """pydantic's converter, sharing its type adapters between workflows, and raising refusals."""

    def __init__(self) -> None:
        super().__init__(*_CONVERTERS)
