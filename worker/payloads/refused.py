"""Replaces a payload that `codec` refuses, and raises when it is converted to a value."""

from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.converter import DefaultPayloadConverter, EncodingPayloadConverter, JSONPlainPayloadConverter

from proto.temporal import dropped

REFUSED: Final = dropped.REFUSED.encode()
MARK: Final = dropped.MARK


class PayloadRefused(Exception):
    """A payload that is not encrypted, was altered, or belongs to another workflow or namespace."""


def refused_payload(refusal: PayloadRefused) -> Payload:
    """Return what takes the place of a refused payload."""
    return Payload(metadata={"encoding": REFUSED}, data=str(refusal).encode())


def marked_refused(payload: Payload) -> Payload:
    """Return a payload of a decrypted history that people can read but a replay refuses."""
    return Payload(metadata={**payload.metadata, MARK: b"1"}, data=payload.data)


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
