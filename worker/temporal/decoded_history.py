"""Decrypts all payloads of a history: to be kept as a test, shown to a person, or replayed without the key file.

Walks the protobuf messages of any event type, so that new event types need no code here.
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import History
from temporalio.client import WorkflowHistory

from worker.temporal.codec import ENCRYPTED, PayloadCipher


def payloads_in(message: Message) -> Iterator[Payload]:
    """Yield every payload inside a message, to be read or replaced in place."""
    if isinstance(message, Payload):
        yield message
        return
    for field, value in message.ListFields():
        for child in _messages(field, value):
            yield from payloads_in(child)


def is_encrypted(history: WorkflowHistory) -> bool:
    """Report whether any payload of this history needs the key file."""
    return any(
        payload.metadata.get("encoding") == ENCRYPTED for event in history.events for payload in payloads_in(event)
    )


def decode_history(history: WorkflowHistory, cipher: PayloadCipher, namespace: str) -> WorkflowHistory:
    """Decrypt every payload; raises PayloadRefused or KeyMissing.

    What is not encrypted (search attributes, trace headers, the SDK's own markers) is not changed.
    """
    copy = History()
    copy.CopyFrom(History(events=history.events))
    for payload in payloads_in(copy):
        if payload.metadata.get("encoding") == ENCRYPTED:
            payload.CopyFrom(
                cipher.decrypt(payload, namespace)
            )  # a signal to another workflow is encrypted for that one
    return WorkflowHistory(history.workflow_id, copy.events)


def _messages(field: FieldDescriptor, value: Any) -> Iterator[Message]:
    """Yield a field's messages; the value is one message, a list, a map, or no message at all."""
    if field.message_type is None:
        return
    if isinstance(value, Message):
        yield value
    elif field.message_type.GetOptions().map_entry:
        yield from (value[key] for key in value if isinstance(value[key], Message))
    else:
        yield from value
