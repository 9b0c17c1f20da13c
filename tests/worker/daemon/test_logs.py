"""Are log lines formatted as the kubelet's, in both formats, whichever library writes them?"""

import io
import json
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from temporalio.exceptions import ApplicationError

from proto.temporal.failure_types import UNEXPECTED
from worker.daemon.config import Logging
from worker.daemon.logs import core_logs, set_up_logs

HEADER = re.compile(r"[IWEF]\d{4} \d{2}:\d{2}:\d{2}\.\d{6} +\d+ [^ :]+\.py:\d+\] ")


@pytest.fixture
def logs(logs_restored: None) -> Callable[[str, int], io.StringIO]:  # noqa: ARG001 - for its end
    """Set the logs up into a text, and give the process's own back afterwards."""

    def start(log_format: str, verbosity: int = 0) -> io.StringIO:
        stream = io.StringIO()
        set_up_logs(Logging(log_format, verbosity), stream)
        return stream

    return start


Start = Callable[..., io.StringIO]


def test_a_line_looks_like_klog(logs: Start) -> None:
    """Header, quoted message, keys in the order in which they were given."""
    stream = logs("text")
    structlog.get_logger("x").bind(pod="default/web", podUID="u-1").info("Container started", containerName="web", n=2)
    line = stream.getvalue()
    header = HEADER.match(line)
    assert header is not None
    assert line[0] == "I"
    assert "test_logs.py" in header.group()
    assert line[header.end() :] == '"Container started" pod="default/web" podUID="u-1" containerName="web" n=2\n'


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param('he said "no"', r'"he said \"no\""', id="quotes"),
        pytest.param("a\nb", "<\n\ta\n\tb\n >", id="several-lines-as-a-block"),
        pytest.param(True, "true", id="a-truth"),
        pytest.param(None, "null", id="nothing"),
        pytest.param(timedelta(seconds=90), '"1m30s"', id="a-duration"),
        pytest.param(datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00+00:00"', id="a-time"),
        pytest.param(Path("/var/lib"), '"/var/lib"', id="a-path"),
        pytest.param(ValueError("bad"), '"bad"', id="an-error"),
        pytest.param(OSError(), '"OSError"', id="an-error-without-words"),
        pytest.param(["a", Path("/b")], '["a", "/b"]', id="a-list"),
        pytest.param({"a": timedelta(seconds=1)}, '{"a": "1s"}', id="a-mapping"),
        pytest.param("grüße", '"grüße"', id="other-letters"),
    ],
)
def test_values_in_text(logs: Start, value: Any, said: str) -> None:
    """Each kind of value as klog would print it."""
    stream = logs("text")
    structlog.get_logger("x").info("m", key=value)
    assert stream.getvalue().split('] "m"')[1] == f" key={said}\n"


@pytest.mark.parametrize(
    ("method", "letter"),
    [
        pytest.param("info", "I", id="info"),
        pytest.param("warning", "W", id="warning"),
        pytest.param("error", "E", id="error"),
    ],
)
def test_the_letter_says_how_grave(logs: Start, method: str, letter: str) -> None:
    """The letters are klog's."""
    stream = logs("text")
    getattr(structlog.get_logger("x"), method)("m")
    assert stream.getvalue()[0] == letter


def test_json_has_the_kubelets_keys(logs: Start) -> None:
    """Milliseconds, caller, msg, v, and ours beside them."""
    stream = logs("json")
    structlog.get_logger("x").info("Container started", pod="default/web", t=timedelta(seconds=1))
    structlog.get_logger("x").warning("w", err=ValueError("bad"))
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["ts"] == pytest.approx(datetime.now(UTC).timestamp() * 1000, abs=60_000)
    assert re.fullmatch(r"test_logs\.py:\d+", first.pop("caller"))
    del first["ts"]
    assert first == {"msg": "Container started", "v": 0, "pod": "default/web", "t": "1s"}
    assert (second["level"], second["err"]) == ("warning", "bad")


@pytest.mark.parametrize("log_format", [pytest.param("text", id="text"), pytest.param("json", id="json")])
def test_what_libraries_log_comes_through(logs: Start, log_format: str) -> None:
    """Temporal's core is forwarded to a stdlib logger; it gets the same format."""
    stream = logs(log_format)
    logging.getLogger("temporalio.core").warning("gRPC call %s retried", "Poll")
    assert "gRPC call Poll retried" in stream.getvalue()
    if log_format == "json":
        assert json.loads(stream.getvalue())["level"] == "warning"
    else:
        assert HEADER.match(stream.getvalue())


def test_temporals_core_logs_through_here(logs: Start) -> None:
    """A worker that cannot reach Temporal says so as one of our lines, with its fields as keys."""
    stream = logs("json")
    config = core_logs()
    assert config.forwarding is not None
    entry = SimpleNamespace(
        level=logging.WARNING, message="Failed to connect", target="client", time=0.5, fields={"attempt": 3}
    )
    config.forwarding._on_logs([entry])
    line = json.loads(stream.getvalue())
    del line["caller"]
    wanted = {"ts": 500.0, "msg": "Failed to connect", "level": "warning", "target": "client", "attempt": 3}
    assert line == wanted


def test_an_exception_carries_error_and_stack(logs: Start) -> None:
    """The error's words under `err`, which people grep, and where it came from."""
    stream = logs("json")
    try:
        int("bad")
    except ValueError:
        structlog.get_logger("x").exception("Sync failed", pod="default/web")
    line = json.loads(stream.getvalue())
    assert (line["err"], line["pod"]) == ("invalid literal for int() with base 10: 'bad'", "default/web")
    assert line["stack"].endswith(f"ValueError: {line['err']}")


@pytest.mark.parametrize(
    ("reason", "stack"),
    [
        pytest.param("ErrImagePull", False, id="a-failure-with-a-reason-is-one-line"),
        pytest.param(UNEXPECTED, True, id="a-defect-shows-where"),
    ],
)
def test_a_failed_activity(logs: Start, reason: str, *, stack: bool) -> None:
    """The SDK logs each with its traceback; an operator who reads of a missing image needs none."""
    stream = logs("json")
    logging.getLogger("temporalio.activity").warning(
        "Completing activity as failed",
        exc_info=ApplicationError("busybox:1: not found", type=reason),
        extra={"__temporal_error_identifier": "ActivityFailure"},
    )
    line = json.loads(stream.getvalue())
    assert "busybox:1: not found" in line["err"]
    assert ("stack" in line) is stack


@pytest.mark.parametrize(
    ("verbosity", "seen"),
    [
        pytest.param(0, (False, False), id="quiet"),
        pytest.param(3, (False, False), id="below"),
        pytest.param(4, (True, False), id="debug"),
        pytest.param(5, (True, False), id="below-requests"),
        pytest.param(6, (True, True), id="requests"),
    ],
)
def test_verbosity_lets_debug_through(logs: Start, verbosity: int, seen: tuple[bool, bool]) -> None:
    """Ours from 4 on, the kubelet's debug level, and the libraries' from 6 on, where a kubelet logs its requests."""
    stream = logs("text", verbosity)
    structlog.get_logger("worker.x").debug("ours")
    logging.getLogger("library").debug("theirs")
    assert ("ours" in stream.getvalue(), "theirs" in stream.getvalue()) == seen


def test_a_librarys_small_talk_is_left_out(logs: Start) -> None:
    """An access log line for each probe is no news."""
    stream = logs("text")
    logging.getLogger("aiohttp.access").info("GET /healthz")
    assert stream.getvalue() == ""
