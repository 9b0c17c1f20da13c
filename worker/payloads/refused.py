"""What stands in the place of a payload that `codec` refuses, and raises where it would be turned into a value."""

from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.converter import DefaultPayloadConverter, EncodingPayloadConverter, JSONPlainPayloadConverter

REFUSED: Final = b"binary/refused"


class PayloadRefused(Exception):
    """A payload that is not sealed, was altered, or belongs to another workflow or namespace."""


class RefusedPayloads(EncodingPayloadConverter):
    """Raises a refusal where the payload is turned into a value."""

    @property
    def encoding(self) -> str:
        """See above."""
        return REFUSED.decode()

    def to_payload(self, value: Any) -> Payload | None:  # noqa: ARG002 - the converter's signature; no value is one
        """Never made from a value."""
        return None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:  # noqa: ARG002 - as above
        """Raise PayloadRefused with the reason."""
        raise PayloadRefused(payload.data.decode())


def with_refusals(json: EncodingPayloadConverter) -> tuple[EncodingPayloadConverter, ...]:
    """Give the SDK's converters with this one for JSON, and with refusals; in the SDK's order."""
    usual = DefaultPayloadConverter.default_encoding_payload_converters
    return *(json if isinstance(one, JSONPlainPayloadConverter) else one for one in usual), RefusedPayloads()
