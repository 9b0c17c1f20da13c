"""Replaces a payload that `codec` refuses, and raises when it is converted to a value."""

from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.converter import DefaultPayloadConverter, EncodingPayloadConverter, JSONPlainPayloadConverter

REFUSED: Final = b"binary/refused"


class PayloadRefused(Exception):
    """A payload that is not encrypted, was altered, or belongs to another workflow or namespace."""


class RefusedPayloads(EncodingPayloadConverter):
    """Raises the refusal when the payload is converted to a value."""

    @property
    def encoding(self) -> str:
        """The encoding of refused payloads."""
        return REFUSED.decode()

    def to_payload(self, value: Any) -> Payload | None:  # noqa: ARG002 - the converter's signature; no value is one
        """Return None: no value becomes a refusal."""
        return None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:  # noqa: ARG002 - as above
        """Raise PayloadRefused with the reason."""
        raise PayloadRefused(payload.data.decode())


def with_refusals(json: EncodingPayloadConverter) -> tuple[EncodingPayloadConverter, ...]:
    """Return the SDK's converters in the SDK's order, with this one for JSON, and with refusals."""
    usual = DefaultPayloadConverter.default_encoding_payload_converters
    return *(json if isinstance(one, JSONPlainPayloadConverter) else one for one in usual), RefusedPayloads()
