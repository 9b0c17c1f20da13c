"""Decrypts all payloads of a history: to be kept as a test, shown to a person, or replayed without the key file.

Walks the protobuf messages of any event type, so that new event types need no code here. A payload that the worker has
refused becomes a refusal here, too, so that a replay of the decrypted history finds what the run found.
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from temporalio.api.common.v1 import Header, Payload, SearchAttributes
from temporalio.api.history.v1 import History, HistoryEvent, MarkerRecordedEventAttributes
from temporalio.client import WorkflowHistory

from worker.payloads.refused import PayloadRefused, refused_payload
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
    """Decrypt every payload of a workflow, and replace one that is refused by its refusal; raises KeyMissing.

    What Temporal and the SDK write themselves (search attributes, trace headers, markers) is not changed.
    """
    copy = History()
    copy.CopyFrom(History(events=history.events))
    named = copy.events[0].workflow_execution_started_event_attributes.workflow_id if copy.events else ""
    activities: dict[int, str] = {}
    for event in copy.events:
        activity_id = _activity_of(event, activities)
        for field, attributes in event.ListFields():
            of = "" if field.name == "user_metadata" else activity_id
            for payload in [one for child in _messages(field, attributes) for one in _encrypted_places(child)]:
                try:
                    payload.CopyFrom(cipher.decrypt(payload, namespace, named or history.workflow_id, of))
                except PayloadRefused as refusal:
                    payload.CopyFrom(refused_payload(refusal))
    return WorkflowHistory(history.workflow_id, copy.events)


def _activity_of(event: HistoryEvent, activities: dict[int, str]) -> str:
    """Return the id of an event's activity, if it has one; `activities` has those that were scheduled before it."""
    if event.HasField("activity_task_scheduled_event_attributes"):
        activity_id = event.activity_task_scheduled_event_attributes.activity_id
        activities[event.event_id] = activity_id
        return activity_id
    which = event.WhichOneof("attributes")
    if which is None or not which.startswith("activity_task_"):
        return ""
    return activities.get(getattr(event, which).scheduled_event_id, "")


def _encrypted_places(message: Message) -> Iterator[Payload]:
    """Yield the payloads that the codec is asked to decrypt."""
    if isinstance(message, SearchAttributes | Header):
        return
    if isinstance(message, Payload):
        yield message
        return
    is_marker = isinstance(message, MarkerRecordedEventAttributes)
    for field, value in message.ListFields():
        for child in _messages(field, value):
            if is_marker:  # its own data is plain, what an activity answered is encrypted
                yield from (one for one in payloads_in(child) if one.metadata.get("encoding") == ENCRYPTED)
            else:
                yield from _encrypted_places(child)


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
