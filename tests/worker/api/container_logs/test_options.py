"""Is the query of a log request parsed and validated as by the kubelet, and a missing log explained?"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from yarl import URL

from activities.logs.lines import Stream
from activities.logs.reader import LogOptions
from worker.api.container_logs.options import LogRequest, parse_log_request
from worker.api.container_logs.runs import NoLog, run_to_show
from worker.api.responses.responses import Refused

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def asked(query: str, *, split: bool = True) -> LogRequest:
    """Parse a query."""
    return parse_log_request(URL(f"/?{query}", encoded=True).query, NOW, split_streams=split)


@pytest.mark.parametrize(
    ("query", "options"),
    [
        pytest.param("", {}, id="nothing-is-everything"),
        pytest.param("tailLines=0", {"tail_lines": 0}, id="no-lines"),
        pytest.param("tailLines=5&tailLines=7", {"tail_lines": 5}, id="the-first-value-counts"),
        pytest.param("tail=3&tailLines=7", {"tail_lines": 3}, id="the-old-name-goes-first"),
        pytest.param("tail=all&tailLines=7", {}, id="the-old-name-for-everything"),
        pytest.param("limitBytes=1", {"limit_bytes": 1}, id="one-byte"),
        pytest.param("sinceSeconds=90", {"since": NOW - timedelta(seconds=90)}, id="seconds-ago"),
        pytest.param("sinceSeconds=9223372036854775807", {}, id="before-any-calendar"),
        pytest.param("sinceTime=2026-11-22T10:00:00Z", {"since": NOW - timedelta(hours=2)}, id="a-time"),
        pytest.param(
            "sinceTime=2026-11-22T12:00:00.123456789%2B02:00",
            {"since": NOW - timedelta(hours=2) + timedelta(microseconds=123456)},
            id="a-time-elsewhere",
        ),
        pytest.param("sinceTime=null", {}, id="an-old-clients-no-time"),
        pytest.param("timestamps=true", {"timestamps": True}, id="timestamps"),
        pytest.param("timestamps=False", {}, id="a-no-in-any-case"),
        pytest.param("timestamps=0", {}, id="a-no-as-a-number"),
        pytest.param("timestamps", {"timestamps": True}, id="a-bare-name-is-a-yes"),
        pytest.param("timestamps=maybe", {"timestamps": True}, id="what-is-no-no-is-a-yes"),
        pytest.param("stream=All&tailLines=1", {"tail_lines": 1}, id="all-streams"),
        pytest.param("stream=Stdout", {"streams": frozenset({Stream.STDOUT})}, id="one-stream"),
        pytest.param("stream=Stderr", {"streams": frozenset({Stream.STDERR})}, id="the-other-stream"),
        pytest.param("container=x&insecureSkipTLSVerifyBackend=true&unknown=1", {}, id="what-is-not-for-us"),
    ],
)
def test_a_query_is_read(query: str, options: dict[str, Any]) -> None:
    """By the rules of Kubernetes' parameters."""
    assert asked(query) == LogRequest(LogOptions(**options), follow=False, previous=False)


def test_following_and_the_run_before_are_asked_for() -> None:
    """They select the log, not a part of it."""
    assert asked("follow=true&previous=1") == LogRequest(LogOptions(), follow=True, previous=True)


@pytest.mark.parametrize(
    ("query", "status", "told"),
    [
        pytest.param("tailLines=many", 400, "tailLines", id="no-number"),
        pytest.param("tailLines=", 400, "tailLines", id="nothing-for-a-number"),
        pytest.param("tailLines=1.5", 400, "tailLines", id="half-a-line"),
        pytest.param("limitBytes=9223372036854775808", 400, "limitBytes", id="more-than-64-bits"),
        pytest.param("limitBytes=%D9%A3", 400, "limitBytes", id="another-scripts-digit"),
        pytest.param("sinceTime=yesterday", 400, "sinceTime", id="no-time"),
        pytest.param("sinceTime=2026-11-22T10:00:00", 400, "sinceTime", id="no-zone"),
        pytest.param("sinceTime=2026-13-22T10:00:00Z", 400, "sinceTime", id="no-such-month"),
        pytest.param("tailLines=-1", 422, "tailLines", id="fewer-than-no-lines"),
        pytest.param("limitBytes=0", 422, "limitBytes", id="no-bytes"),
        pytest.param("sinceSeconds=0", 422, "sinceSeconds", id="from-now-on"),
        pytest.param("sinceSeconds=1&sinceTime=2026-11-22T10:00:00Z", 422, "sinceTime", id="two-begins"),
        pytest.param("sinceSeconds=1&sinceTime=", 422, "sinceTime", id="two-begins-one-of-them-empty"),
        pytest.param("stream=stdout", 422, "stream", id="no-such-stream"),
        pytest.param("stream=Stdout&tailLines=1", 422, "mutually exclusive", id="the-end-of-one-stream"),
    ],
)
def test_a_wrong_query_is_refused(query: str, status: int, told: str) -> None:
    """A malformed query is 400, an invalid one 422, as from the kubelet."""
    with pytest.raises(Refused) as refused:
        asked(query)
    assert refused.value.status == status
    assert told in refused.value.sentence


def test_one_stream_needs_its_gate() -> None:
    """PodLogsQuerySplitStreams."""
    assert asked("stream=All", split=False).options.streams == frozenset(Stream)
    with pytest.raises(Refused, match="PodLogsQuerySplitStreams") as refused:
        asked("stream=Stdout", split=False)
    assert refused.value.status == 400


def run(number: int) -> dict[str, Any]:
    """Return the terminated state of a run."""
    return {"terminated": {"exitCode": 1, "containerID": f"containerd://c{number}"}}


WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}
RUNNING = {"running": {"startedAt": "2026-11-22T12:00:00Z"}}
NEVER = {"terminated": {"exitCode": 128, "reason": "ContainerStatusUnknown"}}


@pytest.mark.parametrize(
    ("state", "last", "previous", "shown"),
    [
        pytest.param(RUNNING, {}, False, "c9", id="the-run-that-goes-on"),
        pytest.param(RUNNING, run(8), True, "c8", id="the-run-before"),
        pytest.param(run(9), run(8), False, "c9", id="the-run-that-has-ended"),
        pytest.param(WAITING, run(8), False, "c8", id="the-last-run-while-it-waits"),
        pytest.param(NEVER, run(8), False, "c8", id="the-last-run-where-the-next-did-not-start"),
        pytest.param(RUNNING, {}, True, 'previous terminated container "c" in pod "p" not found', id="none-before"),
        pytest.param(NEVER, {}, False, 'container "c" in pod "p" is terminated', id="ended-without-a-run"),
        pytest.param(WAITING, NEVER, False, 'container "c" in pod "p" is terminated', id="waits-after-none"),
        pytest.param(
            WAITING, {}, False, 'container "c" in pod "p" is waiting to start: CrashLoopBackOff', id="waits-to-start"
        ),
        pytest.param(
            {"waiting": {"reason": "ErrImagePull"}}, {}, False,
            'container "c" in pod "p" is waiting to start: image can\'t be pulled', id="its-image-was-not-pulled",
        ),
        pytest.param(
            {"waiting": {"reason": "ImagePullBackOff"}}, {}, False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image', id="its-image-waits",
        ),
        pytest.param({}, {}, False, 'container "c" in pod "p" is waiting to start - no logs yet', id="no-state"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"])
def test_which_run_is_shown(state: dict[str, Any], last: dict[str, Any], previous: bool, shown: str, kind: str) -> None:
    """For containers of every kind; a sentence instead of an id says why there is none."""
    status = {kind: [{"name": "c", "state": state, "lastState": last, "containerID": "containerd://c9"}]}
    try:
        found = run_to_show(status, "p", "c", previous=previous)
    except NoLog as error:
        found = str(error)
    assert found == shown


def test_a_container_that_the_status_does_not_tell_of_is_not_available() -> None:
    """It was just added, or there is no status yet."""
    with pytest.raises(NoLog, match='container "c" in pod "p" is not available'):
        run_to_show({"containerStatuses": []}, "p", "c", previous=False)
