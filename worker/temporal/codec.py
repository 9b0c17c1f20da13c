"""The payload codec: compresses each payload, then encrypts it with AES-256-GCM, bound to one workflow.

Used by every Temporal client of ours (through `data_converter`), so nothing in a history is readable without the key
file: inputs, signals, results, failures, heartbeats, memo, summaries. Namespace and workflow id are the associated
data; the id is also in the metadata, because the UI's codec endpoint has no other way to know it. Headers (the trace
context) and search attributes stay plain, as Temporal needs or the SDK leaves them.

What belongs to an activity names it in the metadata that is encrypted with the value, and opens for that activity alone: not for
another one, and not as a signal. It is not in the associated data, so that an earlier release, which names none, can read it after
a downgrade. A local activity has no such name.

A payload that is not encrypted, belongs to another workflow, or names a key that is not active is refused when it is
*converted*, not here: a signal sent with the bare `temporal` command is dropped and counted, an update or query is
answered with the error, and an activity fails with it. Raising here would fail the workflow task for ever, so that one such
signal would stop a pod. Only the missing secret of an active key raises here (`keys.KeyMissing`), and stops the worker:
what it encrypted must not be dropped, and the operator can put it back.
"""

import os
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    PayloadCodec,
    PayloadConverter,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from proto.temporal.names import ACTIVITY
from worker.payloads.refused import PayloadRefused, refused_payload
from worker.payloads.sending import SendingConverter
from worker.payloads.short_failures import ShortFailures
from worker.temporal.keys import KeyFile

ENCRYPTED: Final = b"binary/encrypted"
KEY_ID: Final = "k"  # short: it is in every payload
WORKFLOW_ID: Final = "w"
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_LEVEL: Final = 3  # zstd's default
_LONGEST_QUOTE: Final = 200  # characters
_MOST_COPIES: Final = 1024  # of a kilobyte each
_LARGEST_PLAIN: Final = (
    64 * 1024 * 1024
)  # bytes; far above what a Temporal payload of 2 MB can sensibly hold compressed


class Owner(NamedTuple):
    """What a payload belongs to."""

    namespace: str
    workflow_id: str
    activity_id: str = ""
    """Empty for what belongs to the workflow itself."""


class CodecUnbound(Exception):
    """A payload was to be encrypted or decrypted without a workflow to bind it to."""


class PayloadCipher:
    """Encrypts and decrypts payloads of any workflow; shared by all bound copies of the codec.

    Not thread-safe (the compressor is not); every caller is on its process's one event loop.
    """

    def __init__(self, keys: KeyFile) -> None:
        self._keys = keys
        self._ciphers: dict[str, AESGCM] = {}
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self._decompressor = zstandard.ZstdDecompressor()

    def encrypt(self, payload: Payload, namespace: str, workflow_id: str, activity_id: str = "") -> Payload:
        """Compress and encrypt one payload for a workflow, or for one of its activities."""
        key = self._keys.newest
        nonce = os.urandom(_NONCE_BYTES)
        plain = self._compressor.compress(_naming(activity_id, payload).SerializeToString())
        cipher = self._ciphers.get(key.key_id) or self._ciphers.setdefault(key.key_id, AESGCM(key.secret))
        return Payload(
            metadata={"encoding": ENCRYPTED, KEY_ID: key.key_id.encode(), WORKFLOW_ID: workflow_id.encode()},
            data=nonce + cipher.encrypt(nonce, plain, _bound_to(namespace, workflow_id)),
        )

    def decrypt(
        self, payload: Payload, namespace: str, workflow_id: str | None = None, activity_id: str = ""
    ) -> Payload:
        """Decrypt one payload; without a workflow id, the one in its metadata is used (and verified by the decryption).

        With a workflow id, a payload of another activity than this one is refused.

        Raises PayloadRefused, or KeyMissing of `keys`.
        """
        metadata = payload.metadata
        if metadata.get("encoding") != ENCRYPTED or KEY_ID not in metadata or WORKFLOW_ID not in metadata:
            raise PayloadRefused(
                f"a payload of workflow {_quoted(workflow_id or 'unknown')} is not encrypted: send it with tempolet's own client, "
                "not with the bare temporal command or the UI"
            )
        named = metadata[WORKFLOW_ID].decode(errors="replace")
        if workflow_id is not None and named != workflow_id:
            raise PayloadRefused(
                f"a payload of workflow {workflow_id} belongs to workflow {_quoted(named)}: it was copied here"
            )
        cipher = self._cipher(metadata[KEY_ID].decode(errors="replace"), named)
        data = payload.data
        try:
            plain = cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], _bound_to(namespace, named))
            opened = Payload.FromString(self._decompressor.decompress(plain, max_output_size=_LARGEST_PLAIN))
        except (InvalidTag, ValueError, DecodeError, zstandard.ZstdError):
            raise PayloadRefused(
                f"a payload of workflow {_quoted(named)} cannot be decrypted: it was altered, or encrypted for another namespace than "
                f"{namespace}"
            ) from None
        if workflow_id is not None and opened.metadata.get(ACTIVITY, activity_id.encode()) != activity_id.encode():
            of = opened.metadata[ACTIVITY].decode(errors="replace")
            raise PayloadRefused(f"a payload of workflow {_quoted(named)} belongs to its activity {_quoted(of)}")
        return opened

    def _cipher(self, key_id: str, workflow_id: str) -> AESGCM:
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            key = self._keys.find(key_id)
            if key is None:
                raise PayloadRefused(
                    f"a payload of workflow {_quoted(workflow_id)} names key {_quoted(key_id)}, which is not an active one of "
                    f"{self._keys.path}"
                )
            cipher = self._ciphers[key_id] = AESGCM(key.secret)
        return cipher


class EncryptionCodec(PayloadCodec, WithSerializationContext):
    """The codec that Temporal's client and worker call; each copy is bound to one workflow by `with_context`."""

    def __init__(self, cipher: PayloadCipher, owner: Owner | None = None) -> None:
        self._cipher = cipher
        self._owner = owner

    def with_context(self, context: SerializationContext) -> "EncryptionCodec":
        """Return the copy for a workflow, or for one of its activities."""
        return EncryptionCodec(self._cipher, _owner_of(context))

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt payloads; raises CodecUnbound if they belong to no workflow."""
        owner = self._bound()
        return [self._cipher.encrypt(payload, *owner) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt payloads, or replace them by a refusal; raises KeyMissing or CodecUnbound."""
        owner = self._bound()
        return [self._open_or_refuse(payload, owner) for payload in payloads]

    def _open_or_refuse(self, payload: Payload, owner: Owner) -> Payload:
        try:
            return self._cipher.decrypt(payload, *owner)
        except PayloadRefused as refusal:
            return refused_payload(refusal)

    def _bound(self) -> Owner:
        if self._owner is None:
            raise CodecUnbound(
                "this payload belongs to no workflow: use a handle that knows its workflow (for an activity by id, "
                "temporal_client.activity_of)"
            )
        return self._owner


class PlainCodec(PayloadCodec, WithSerializationContext):
    """Names the activity of a payload as the other codec does, and encrypts nothing."""

    def __init__(self, activity_id: str = "") -> None:
        self._activity_id = activity_id

    def with_context(self, context: SerializationContext) -> "PlainCodec":
        """Return the copy for a workflow, or for one of its activities."""
        owner = _owner_of(context)
        return PlainCodec(owner.activity_id if owner else "")

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Name the activity."""
        return [_naming(self._activity_id, payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Return the payloads."""
        return list(payloads)


class CachingConverter(DataConverter):
    """A converter that caches its copies for recent workflows and activities.

    The SDK asks for a copy three times for each payload of a command, and creating one takes 11 µs.
    """

    _copies: dict[Owner, Self]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_copies", {})  # the SDK's class is frozen

    def with_context(self, context: SerializationContext) -> Self:
        """Return the copy for a workflow, or for one of its activities."""
        bound_to = _owner_of(context)
        if bound_to is None:
            return super().with_context(context)
        copy = self._copies.get(bound_to)
        if copy is None:
            if len(self._copies) == _MOST_COPIES:
                self._copies.clear()
            copy = self._copies[bound_to] = super().with_context(context)
        return copy


def data_converter(keys: KeyFile, *, sends_only: bool = False) -> DataConverter:
    """Build the data converter of our Temporal clients; `sends_only` avoids loading pydantic."""
    return CachingConverter(
        payload_converter_class=SendingConverter if sends_only else _reading_converter(),
        payload_codec=EncryptionCodec(PayloadCipher(keys)),
        failure_converter_class=ShortFailures,
    )


def plain_data_converter() -> DataConverter:
    """Build the same without encryption, for decoded histories that are kept as tests."""
    return CachingConverter(
        payload_converter_class=_reading_converter(),
        payload_codec=PlainCodec(),
        failure_converter_class=ShortFailures,
    )


def _reading_converter() -> type[PayloadConverter]:
    from worker.payloads.receiving import ReceivingConverter  # noqa: PLC0415 - the poller does not load pydantic

    return ReceivingConverter


def _owner_of(context: SerializationContext) -> Owner | None:
    """Return what a payload belongs to."""
    match context:
        case ActivitySerializationContext() if context.workflow_id:
            activity_id = "" if context.is_local else context.activity_id or ""
            return Owner(context.namespace, context.workflow_id, activity_id)
        case WorkflowSerializationContext() if context.workflow_id:
            return Owner(context.namespace, context.workflow_id)
        case _:
            return None


def _naming(activity_id: str, payload: Payload) -> Payload:
    """Return a payload that names its activity."""
    if not activity_id:
        return payload
    return Payload(metadata={**payload.metadata, ACTIVITY: activity_id.encode()}, data=payload.data)


def _quoted(text: str) -> str:
    """Repeat what a stranger may have written, shortened."""
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…"


def _bound_to(namespace: str, workflow_id: str) -> bytes:
    return b"tempolet/1\0" + namespace.encode() + b"\0" + workflow_id.encode()
