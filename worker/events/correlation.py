"""Which events are created, which only increase a count, and which are dropped: client-go's rules.

Used by the recorder for each event, in the order in which they happened (client-go tools/record/events_cache.go). Events that
differ only by their message are combined after the tenth in ten minutes; a repeated event is counted; for each object and type,
25 may be sent at once and one more every five minutes. Memory is bounded: the least recently used entries are dropped.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from worker.events.event import Json, ObjectReference, Occurrence, event_name, new_event, truncate

REMEMBERED: Final = 4096
SIMILAR: Final = 10
SIMILAR_WITHIN: Final = timedelta(minutes=10)
BURST: Final = 25
REFILLED_EVERY: Final = timedelta(minutes=5)
_TOGETHER: Final = timedelta(milliseconds=1)
"""A time earlier than the last one by this little is not a clock that was set back."""
COMBINED: Final = "(combined from similar events): "

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class EventToSend:
    """What to send: a new Event, or the changes of one that was sent before."""

    event: Json
    key: "Key"
    again: bool = False

    def patch(self) -> Json:
        """Return the patch for a repetition."""
        changed = {name: self.event[name] for name in ("count", "lastTimestamp", "message")}
        return {**changed, "type": self.event["type"]}


Key = tuple[ObjectReference, str, str, str]
"""Object, type, reason and message of an event; the message of a combined one is empty."""


@dataclass(slots=True)
class _Similar:
    messages: set[str] = field(default_factory=set)
    last: datetime | None = None


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: datetime


@dataclass(frozen=True, slots=True)
class _Seen:
    name: str
    first: str
    count: int


class _Newest(Generic[_Key, _Value]):
    """A cache of the most recently used values."""

    def __init__(self) -> None:
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def get(self, key: _Key) -> _Value | None:
        if (value := self._values.get(key)) is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: _Key, value: _Value) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > REMEMBERED:
            self._values.popitem(last=False)

    def drop(self, key: _Key) -> None:
        self._values.pop(key, None)


class Correlation:
    """The events sent so far, as far as they affect the next ones."""

    def __init__(self, node_name: str) -> None:
        self._node = node_name
        self._last: datetime | None = None
        self._similar: _Newest[tuple[Any, ...], _Similar] = _Newest()
        self._seen: _Newest[Key, _Seen] = _Newest()
        self._buckets: _Newest[tuple[Any, ...], _Bucket] = _Newest()

    def take(self, happened: Occurrence, at: datetime) -> EventToSend | None:
        """Return what to send; None if the object's rate limit is exceeded."""
        event = new_event(happened, self._node, self._apart(at))
        about = happened.about
        key: Key = (about, happened.type, happened.reason, event["message"])
        if self._are_similar(happened, at):
            event["message"] = truncate(COMBINED + happened.message)
            key = (_whole(about), happened.type, happened.reason, "")
        seen = self._seen.get(key)
        if seen is not None:
            event["metadata"]["name"], event["firstTimestamp"] = seen.name, seen.first
            event["count"] = seen.count + 1
        self._seen.put(key, _Seen(event["metadata"]["name"], event["firstTimestamp"], event["count"]))
        if not self._may_tell((_whole(about), happened.type), at):
            return None
        return EventToSend(event, key, again=seen is not None)

    def recreated(self, outgoing: EventToSend, at: datetime) -> EventToSend:
        """Return a repetition as a new Event, because the server has deleted the original."""
        name = event_name(outgoing.event["involvedObject"]["name"], at)
        event = {**outgoing.event, "metadata": {**outgoing.event["metadata"], "name": name}}
        self._seen.put(outgoing.key, _Seen(name, event["firstTimestamp"], event["count"]))
        return EventToSend(event, outgoing.key)

    def _apart(self, at: datetime) -> datetime:
        """Return a unique time for events of the same microsecond, because their names contain it."""
        if self._last is not None and timedelta() <= self._last - at < _TOGETHER:
            at = self._last + timedelta(microseconds=1)
        self._last = at
        return at

    def _are_similar(self, happened: Occurrence, at: datetime) -> bool:
        """Report whether so many events of an object differ only by their message that they are combined."""
        key = (_whole(happened.about), happened.type, happened.reason)
        known = self._similar.get(key)
        if known is None or known.last is None or at - known.last > SIMILAR_WITHIN:
            known = _Similar()
        known.messages.add(happened.message)
        known.last = at
        self._similar.put(key, known)
        if len(known.messages) < SIMILAR:
            return False
        known.messages.pop()
        return True

    def _may_tell(self, key: tuple[Any, ...], at: datetime) -> bool:
        """Take a token from an object's bucket."""
        bucket = self._buckets.get(key) or _Bucket(BURST, at)
        bucket.tokens = min(BURST, bucket.tokens + max(at - bucket.at, timedelta()) / REFILLED_EVERY)
        bucket.at = at
        self._buckets.put(key, bucket)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


def _whole(about: ObjectReference) -> ObjectReference:
    """Return the reference without the field path: the limit is for the whole pod."""
    return replace(about, field_path="") if about.field_path else about
