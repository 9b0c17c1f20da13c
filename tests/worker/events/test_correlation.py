"""Which events are created, which are counted, and which are dropped?"""

from datetime import UTC, datetime, timedelta

from worker.events.correlation import BURST, COMBINED, SIMILAR, Correlation, EventToSend
from worker.events.event import NORMAL, WARNING, ObjectReference, Occurrence

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
POD = ObjectReference("Pod", "web", "uid-1", "default")
WEB = ObjectReference("Pod", "web", "uid-1", "default", "spec.containers{web}")


def happened(
    message: str = "Back-off", *, reason: str = "BackOff", kind: str = WARNING, about: ObjectReference = WEB
) -> Occurrence:
    """Return an occurrence."""
    return Occurrence(about, kind, reason, message)


def told(correlation: Correlation, what: Occurrence, seconds: float = 0) -> EventToSend:
    """Take it, and expect that it is sent."""
    found = correlation.take(what, NOW + timedelta(seconds=seconds))
    assert found is not None
    return found


def test_the_same_again_is_counted() -> None:
    """One object, whose count and last time change; nothing else is sent again."""
    correlation = Correlation("n1")
    first, second = told(correlation, happened()), told(correlation, happened(), 60)
    assert (first.again, second.again) == (False, True)
    assert second.event["metadata"] == first.event["metadata"]
    assert second.patch() == {
        "count": 2,
        "lastTimestamp": "2026-01-02T03:05:05Z",
        "message": "Back-off",
        "type": WARNING,
    }
    assert second.event["firstTimestamp"] == "2026-01-02T03:04:05Z"


def test_other_containers_reasons_and_pods_are_events_of_their_own() -> None:
    """What differs in anything but its time is another event."""
    correlation = Correlation("n1")
    others = [
        happened(),
        happened(about=POD),
        happened(reason="Failed"),
        happened(kind=NORMAL),
        happened(about=ObjectReference("Pod", "web", "uid-2", "default")),
        happened("other words"),
    ]
    assert not any(told(correlation, one).again for one in others)


def test_what_happens_in_one_microsecond_has_two_names() -> None:
    """With one name, the second would be taken for a retry of the first; a clock that is set back is accepted."""
    correlation = Correlation("n1")
    names = {
        told(correlation, happened(reason=reason)).event["metadata"]["name"] for reason in ("BackOff", "Failed", "Last")
    }
    assert len(names) == 3
    assert told(correlation, happened(reason="Back"), -3600).event["firstTimestamp"] == "2026-01-02T02:04:05Z"


def test_many_that_differ_by_their_message_become_one() -> None:
    """After the tenth in ten minutes they are one event, with the newest message."""
    correlation = Correlation("n1")
    single = [told(correlation, happened(f"message {index}"), index) for index in range(SIMILAR - 1)]
    assert not any(one.event["message"].startswith(COMBINED) for one in single)
    first, second = (told(correlation, happened(f"message {index}"), index) for index in (20, 21))
    assert (first.event["message"], first.again) == (f"{COMBINED}message 20", False)
    assert (second.event["message"], second.again, second.event["count"]) == (f"{COMBINED}message 21", True, 2)


def test_after_ten_quiet_minutes_they_are_single_again() -> None:
    """Rare events are not combined."""
    correlation = Correlation("n1")
    for index in range(SIMILAR):
        told(correlation, happened(f"message {index}"))
    assert told(correlation, happened("later"), 601).event["message"] == "later"


def test_one_pod_cannot_flood_the_api() -> None:
    """25 at once of one type, for all containers together, then one in five minutes; other types and pods are not affected."""
    correlation = Correlation("n1")
    for index in range(BURST):
        assert correlation.take(happened(about=WEB if index % 2 else POD), NOW)
    assert correlation.take(happened(), NOW) is None
    assert correlation.take(happened(kind=NORMAL), NOW)
    assert correlation.take(happened(about=ObjectReference("Pod", "db", "uid-3", "default")), NOW)
    assert correlation.take(happened(), NOW + timedelta(minutes=4)) is None
    later = correlation.take(happened(), NOW + timedelta(minutes=5))
    assert later is not None
    assert later.event["count"] > BURST // 2, "what was not told is counted all the same"


def test_an_event_that_the_server_has_forgotten_is_made_anew() -> None:
    """Events live for an hour; a pod may back off for longer."""
    correlation = Correlation("n1")
    told(correlation, happened())
    again = told(correlation, happened(), 4000)
    anew = correlation.recreated(again, NOW + timedelta(seconds=4000))
    assert anew.event["metadata"]["name"] != again.event["metadata"]["name"]
    assert anew.event["count"] == 2
    assert told(correlation, happened(), 4001).event["metadata"]["name"] == anew.event["metadata"]["name"]


def test_an_event_as_the_api_has_it() -> None:
    """The fields that kubectl and dashboards read."""
    event = told(Correlation("n1"), happened("x" * 3000)).event
    assert event["metadata"] == {"name": "web.1886caf21ca08a70", "namespace": "default"}
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "web",
        "uid": "uid-1",
        "fieldPath": "spec.containers{web}",
    }
    assert event["source"] == {"component": "kubelet", "host": "n1"}
    assert (event["reportingComponent"], event["reportingInstance"]) == ("kubelet", "n1")
    assert len(event["message"]) == 1024
    assert (event["count"], event["eventTime"]) == (1, None)
