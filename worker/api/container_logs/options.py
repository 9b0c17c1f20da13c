"""The query of a container logs request, parsed and validated. Pure.

The kubelet decodes the query as PodLogOptions by the rules of Kubernetes' parameters (a bare `follow` is true, the first of
several values counts) and checks it with ValidatePodLogOptions. Its answers only say that something is wrong
(pkg/kubelet/server/server.go getContainerLogs); these name the parameter.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final, TypeVar

from multidict import MultiMapping

from activities.logs.lines import Stream
from activities.logs.reader import LogOptions
from worker.api.responses.responses import Refused
from workflows.decide.manifest.fields.field_errors import shortened

_INT64: Final = 1 << 63
_WHOLE: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?\d*(Z|[+-]\d\d:\d\d)", re.ASCII)
_BEGIN: Final = datetime(1, 1, 1, tzinfo=UTC)
_STREAMS: Final = {
    "All": frozenset(Stream),
    "Stdout": frozenset({Stream.STDOUT}),
    "Stderr": frozenset({Stream.STDERR}),
}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which run's log to send, how much of it, and whether to follow."""

    options: LogOptions
    follow: bool
    previous: bool


def parse_log_request(query: MultiMapping[str], now: datetime, *, split_streams: bool) -> LogRequest:
    """Parse and validate a query; `split_streams` is the gate PodLogsQuerySplitStreams. Raises Refused: 400, 422."""
    tail_text = query.get("tail") or query.get("tailLines")
    tail = None if query.get("tail") == "all" else _read("tailLines", tail_text, _integer)
    limit = _read("limitBytes", query.get("limitBytes"), _integer)
    seconds = _read("sinceSeconds", query.get("sinceSeconds"), _integer)
    time = _read("sinceTime", query.get("sinceTime"), _time)
    stream = query.get("stream", "All")
    if stream != "All" and not split_streams:
        sentence = f'unable to return the given log stream: "{shortened(stream)}". Please enable PodLogsQuerySplitStreams feature gate in kubelet'
        raise Refused(HTTPStatus.BAD_REQUEST, sentence)
    _validate(
        {
            "tailLines: must be greater than or equal to 0": tail is not None and tail < 0,
            "limitBytes: must be greater than 0": limit is not None and limit < 1,
            "at most one of `sinceTime` or `sinceSeconds` may be specified": seconds is not None and time is not None,
            "sinceSeconds: must be greater than 0": seconds is not None and seconds < 1,
            "stream: supported values: All, Stderr, Stdout": stream not in _STREAMS,
            "`tailLines` and specific `stream` are mutually exclusive for now": tail is not None and stream != "All",
        }
    )
    options = LogOptions(
        tail_lines=tail,
        since=_since(seconds, time, now),
        timestamps=_flag(query.get("timestamps")),
        limit_bytes=limit,
        streams=_STREAMS[stream],
    )
    return LogRequest(options, _flag(query.get("follow")), _flag(query.get("previous")))


def _read(name: str, text: str | None, read: Callable[[str], _T]) -> _T | None:
    if text is None:
        return None
    try:
        return read(text)
    except ValueError:
        raise Refused(HTTPStatus.BAD_REQUEST, f'{{"message": "Unable to decode query."}}: {name}') from None


def _validate(wrongs: dict[str, bool]) -> None:
    for wrong, found in wrongs.items():
        if found:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f'{{"message": "Invalid request."}}: {wrong}')


def _integer(text: str) -> int:
    if not _WHOLE.fullmatch(text) or not -_INT64 <= int(text) < _INT64:
        raise ValueError(text)
    return int(text)


def _time(text: str) -> datetime:
    """Parse RFC 3339; older clients send `null` or nothing for no time, which is before all lines."""
    if text in {"", "null"}:
        return _BEGIN
    if not (found := _RFC3339.fullmatch(text)):
        raise ValueError(text)
    fraction = (found[1] or "")[:7]
    return datetime.fromisoformat(text[:19] + fraction + found[2].replace("Z", "+00:00"))


def _flag(text: str | None) -> bool:
    return text is not None and text != "0" and text.lower() != "false"


def _since(seconds: int | None, time: datetime | None, now: datetime) -> datetime | None:
    if seconds is None:
        return None if time == _BEGIN else time
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:
        return None
