"""Log output: the kubelet's klog text or its JSON, one line per message, on stderr.

Set up once by each service (`set_up_logs`), after the configuration is read. Our own messages use
`structlog.get_logger(__name__)`; those of libraries and Temporal's core, by stdlib logging, are formatted in the same
way, so one format and one verbosity apply to all. Operators grep for `pod`, `podUID`, `containerName`, `containerID`
and `err`: bind those names (`log.bind(pod="namespace/name", podUID=uid)`).
"""

import contextlib
import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

from proto.kubernetes.go_duration import format_duration
from proto.temporal.failure_types import UNEXPECTED
from worker.daemon.config import Logging

if TYPE_CHECKING:
    from temporalio.runtime import LoggingConfig

DEBUG_FROM_VERBOSITY: Final = 4
"""The kubelet's "debug level verbosity": our own messages."""
LIBRARIES_FROM_VERBOSITY: Final = 6
"""From here on those of libraries, too, as client-go's requests. They are most of the lines and of the time: Temporal's SDK writes down every activation."""
_PACKAGES: Final = ("activities", "proto", "worker", "workflows")
_LETTERS: Final = {"debug": "I", "info": "I", "warning": "W", "error": "E", "critical": "F"}  # klog has no debug letter
CORE_LOGGER: Final = "temporalio.core"
_QUIETER: Final = ("aiohttp.access", "asyncio", "grpc", "urllib3")
"""Libraries whose informational messages do not interest an operator."""
_SDK_KIND: Final = "__temporal_error_identifier"
LARGEST_FILE: Final = 16 << 20
KEPT_FILES: Final = 3
"""Older files beside the current one: `worker.log.1` is the newest of them."""
_STDERR: Final = 2
_STDOUTS: Final = (1, _STDERR)
_OURS: Final = ("event", "level", "v", "caller", "_record", "_from_structlog", "exc_info", "stack_info", "logger")


class LogFile:
    """The file that a process of `tempolet up` has as its stderr, rotated, so that nobody fills the disk with log lines.

    It is a stream for a `logging.StreamHandler`, which calls it under its lock. The process rotates the file itself, for it has
    no other supervisor: the file is renamed, and stdout and stderr go to a new one, so that what the SDK's core or the
    interpreter write by themselves follows. Under systemd the journal does this.
    """

    def __init__(self, path: Path, largest: int = LARGEST_FILE, kept: int = KEPT_FILES) -> None:
        self._path = path
        self._largest = largest
        self._kept = kept

    def write(self, text: str) -> int:
        """Write to the log, and rotate it first if it is full; raises OSError if it cannot be written."""
        data = text.encode(errors="backslashreplace")
        if os.fstat(_STDERR).st_size + len(data) > self._largest:
            with contextlib.suppress(OSError):  # a log that grows is better than none
                self._rotate()
        while data:
            data = data[os.write(_STDERR, data) :]
        return len(text)

    def flush(self) -> None:
        """Do nothing: every line is written at once."""

    def _rotate(self) -> None:
        if not os.path.samestat(os.fstat(_STDERR), self._path.stat()):
            return  # not what stderr is: whoever redirected it looks after it
        for number in range(self._kept - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self._older(number).replace(self._older(number + 1))
        self._path.replace(self._older(1))
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for number in _STDOUTS:
                os.dup2(descriptor, number)
        finally:
            os.close(descriptor)

    def _older(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def set_up_logs(settings: Logging, stream: TextIO | LogFile | None = None, *, changeable: bool = False) -> None:
    """Send all logs of this process to `stream` (stderr) as text or JSON; `changeable` allows `set_verbosity`."""
    render = _json_line if settings.format == "json" else _text_line
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=not changeable,  # a cached logger keeps its level, and is faster
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=[render], foreign_pre_chain=[]))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    set_verbosity(settings.verbosity)


@contextlib.contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Send the warnings of a command's code to stderr while the block runs, and no other logs: what it prints is its answer."""
    before = structlog.get_config()
    structlog.configure(
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )
    try:
        yield
    finally:
        structlog.configure(**before)


def set_verbosity(verbosity: int) -> None:
    """Change the verbosity; loggers in use follow only if logging was set up as changeable."""
    ours, theirs = (
        logging.DEBUG if verbosity >= least else logging.INFO
        for least in (DEBUG_FROM_VERBOSITY, LIBRARIES_FROM_VERBOSITY)
    )
    structlog.configure(**{**structlog.get_config(), "wrapper_class": structlog.make_filtering_bound_logger(ours)})
    logging.getLogger().setLevel(theirs)
    for name in _PACKAGES:
        logging.getLogger(name).setLevel(ours)
    for name in _QUIETER:
        logging.getLogger(name).setLevel(logging.DEBUG if theirs == logging.DEBUG else logging.WARNING)


def core_logs() -> "LoggingConfig":
    """Return the options by which Temporal's core logs its warnings here, for `temporalio.runtime.Runtime`."""
    from temporalio.runtime import LogForwardingConfig, LoggingConfig  # noqa: PLC0415 - 20 MB for pods

    from worker.temporal.temporal_client import CORE_LEVELS  # noqa: PLC0415 - likewise

    forwarding = LogForwardingConfig(
        logger=logging.getLogger(CORE_LOGGER),
        append_target_to_name=False,
        prepend_target_on_message=False,
        append_log_fields_to_message=False,  # they become keys
    )
    return LoggingConfig(filter=CORE_LEVELS, forwarding=forwarding)


def _text_line(_: WrappedLogger, method: str, event: EventDict) -> str:
    """Format klog's text: `I1121 09:24:00.123456    4711 file.py:12] "Message" key="value"`."""
    record: logging.LogRecord = event["_record"]
    when = datetime.fromtimestamp(record.created).astimezone()
    letter = _LETTERS.get(record.levelname.lower(), "I")
    head = f"{letter}{when:%m%d %H:%M:%S.%f} {os.getpid():7d} {record.filename}:{record.lineno}] "
    said = "".join(f" {key}{_text_value(value)}" for key, value in _keys(event).items())
    return f"{head}{_quoted(str(event.get('event', method)))}{said}"


def _json_line(_: WrappedLogger, method: str, event: EventDict) -> str:
    """Format the kubelet's JSON: ts in milliseconds, caller, msg, v, then the keys."""
    record: logging.LogRecord = event["_record"]
    line: dict[str, Any] = {
        "ts": round(record.created * 1000, 3),
        "caller": f"{record.filename}:{record.lineno}",
        "msg": str(event.get("event", method)),
    }
    if record.levelno >= logging.WARNING:
        line["level"] = record.levelname.lower()
    else:
        line["v"] = DEBUG_FROM_VERBOSITY if record.levelno <= logging.DEBUG else 0
    return json.dumps(line | _keys(event), default=_plain, ensure_ascii=False)


def _keys(event: EventDict) -> dict[str, Any]:
    found = {key: value for key, value in event.items() if key not in _OURS}
    core = getattr(event["_record"], "temporal_log", None)
    if core is not None:
        found |= {"target": core.target, **core.fields}
    error = _exception(event)
    if error is not None:
        found.setdefault("err", str(error) or type(error).__name__)
        if not _is_meant(event, error):
            found["stack"] = "".join(traceback.format_exception(error)).rstrip("\n")
    return found


def _is_meant(event: EventDict, error: BaseException) -> bool:
    """Report whether this is an activity's failure with a reason of its own, which is logged as one line."""
    of_activity = getattr(event["_record"], _SDK_KIND, "") == "ActivityFailure"
    return of_activity and getattr(error, "type", None) not in (None, UNEXPECTED)


def _exception(event: EventDict) -> BaseException | None:
    info = event.get("exc_info") or event["_record"].exc_info
    match info:
        case BaseException():
            return info
        case tuple():
            return info[1] if isinstance(info[1], BaseException) else None
        case True:
            return sys.exc_info()[1]
        case _:
            return None


def _text_value(value: Any) -> str:
    match value:
        case str() | BaseException() | os.PathLike() | datetime() | timedelta():
            text = _plain(value)
            return f"={_quoted(text)}" if "\n" not in text else _block(text)
        case bool() | int() | float() | None:
            return f"={json.dumps(value)}"
        case _:
            return f"={json.dumps(value, default=_plain, ensure_ascii=False)}"


def _plain(value: Any) -> Any:
    match value:
        case str():
            return str(value)
        case timedelta():
            return format_duration(value)
        case datetime():
            return value.isoformat()
        case Mapping():
            return dict(value)
        case set() | frozenset():
            return sorted(map(str, value))
        case BaseException():
            return str(value) or type(value).__name__
        case _:
            return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _block(text: str) -> str:
    """Format several lines as klog does: indented by a tab, closed by ` >`."""
    lines = "".join(f"\t{line}\n" for line in text.rstrip("\n").split("\n"))
    return f"=<\n{lines} >"
