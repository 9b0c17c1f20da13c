"""The query of /logs/?query=…: services or one file, a time range, a limit (pkg/kubelet/kubelet_server_journal.go).

Pure. A name with a slash is a file, every other name is a service.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from multidict import MultiMapping

from worker.api.responses.responses import Refused

MOST_LINES: Final = 100_000
MOST_SERVICES: Final = 4
LONGEST_NAME: Final = 256
LONGEST_PATTERN: Final = 1024
_UNSAFE: Final = re.compile(r"[^a-zA-Z\-_.:0-9@]")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of a service's log to send."""

    since: datetime | None = None
    until: datetime | None = None
    lines: int | None = None
    boot: int | None = None
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """A validated query: services, or one file."""

    services: tuple[str, ...] = ()
    file: str = ""
    options: LogOptions = LogOptions()


def parse_log_query(query: MultiMapping[str]) -> LogQuery | None:
    """Parse a query; None if there is none. Raises Refused: 400 for a malformed value, 406 for one that is not allowed."""
    wrong: list[str] = []
    asked = query.getall("query", [])
    files = [one for one in asked if "/" in one or "\\" in one]
    services = [one for one in asked if one not in files and one.strip()]
    if asked and not (files or services):
        wrong.append(_invalid("query", asked, "may not be empty"))
    options = LogOptions(
        since=_time(query, "sinceTime", wrong),
        until=_time(query, "untilTime", wrong),
        boot=_number(query, "boot", wrong),
        lines=_number(query, "tailLines", wrong),
        pattern=query.get("pattern", ""),
    )
    _refuse(wrong, HTTPStatus.BAD_REQUEST)
    if not asked and options == LogOptions():
        return None
    _refuse(list(_wrong(services, files, options)), HTTPStatus.NOT_ACCEPTABLE)
    return LogQuery(tuple(services), files[0].replace("\\", "/") if files else "", options)


def journal_arguments(services: Sequence[str], options: LogOptions) -> list[str]:
    """Return journalctl's arguments; times in UTC, whatever their zone in the query."""
    arguments = ["--utc", "--no-pager", "--output=short-precise"]
    arguments += [f"--since={_journal_time(options.since)}"] if options.since else []
    arguments += [f"--until={_journal_time(options.until)}"] if options.until else []
    arguments += ["--pager-end", f"--lines={options.lines}"] if options.lines is not None else []
    arguments += [f"--unit={service}" for service in services]
    arguments += [f"--grep={options.pattern}"] if options.pattern else []
    return arguments + ([f"--boot={options.boot}"] if options.boot is not None else [])


def _journal_time(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _wrong(services: Sequence[str], files: Sequence[str], options: LogOptions) -> Iterator[str]:
    for service in services:
        if len(service) > LONGEST_NAME:
            yield _invalid("query", service, f"length must be less than {LONGEST_NAME}")
        elif _UNSAFE.search(service):
            yield _invalid("query", service, "input contains unsupported characters")
    if len(services) > MOST_SERVICES:
        yield f"query: Too many: {len(services)}: must have at most {MOST_SERVICES} items"
    if not files and not services:
        yield "query: Required value: cannot be empty with options"
    elif files and services:
        yield _invalid("query", [*files, *services], "cannot specify a file and service")
    elif len(files) > 1:
        yield _invalid("query", files, "cannot specify more than one file")
    elif files and options != LogOptions():
        yield _invalid("query", files, "cannot specify file with options")
    yield from _wrong_options(options)


def _wrong_options(options: LogOptions) -> Iterator[str]:
    if options.since and options.until and options.since > options.until:
        yield _invalid("untilTime", options.until.isoformat(), "must be after `sinceTime`")
    if options.boot is not None and options.boot > 0:
        yield _invalid("boot", options.boot, "must be less than 1")
    if options.lines is not None and not 0 <= options.lines <= MOST_LINES:
        yield _invalid("tailLines", options.lines, f"must be between 0 and {MOST_LINES}, inclusive")
    if len(options.pattern) > LONGEST_PATTERN:
        yield _invalid("pattern", options.pattern[:60], f"length must be less than {LONGEST_PATTERN}")
    elif "\0" in options.pattern:
        yield _invalid("pattern", options.pattern, "input contains unsupported characters")
    else:
        try:
            re.compile(options.pattern)
        except (re.error, RecursionError, OverflowError) as error:
            yield _invalid("pattern", options.pattern, str(error))


def _time(query: MultiMapping[str], name: str, wrong: list[str]) -> datetime | None:
    text = query.get(name, "")
    if not text:
        return None
    with contextlib.suppress(ValueError, OverflowError):  # OverflowError: converted to UTC it is in the year 0
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text).astimezone(UTC)
    wrong.append(_invalid(name, text, "invalid time format"))
    return None


def _number(query: MultiMapping[str], name: str, wrong: list[str]) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        wrong.append(_invalid(name, text, "invalid syntax"))
        return None
    return int(text)


def _invalid(name: str, value: object, detail: str) -> str:
    quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(value, str) else str(value)
    return f"{name}: Invalid value: {quoted}: {detail}"


def _refuse(wrong: list[str], status: HTTPStatus) -> None:
    if wrong:
        raise Refused(status, (wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]") + "\n")
