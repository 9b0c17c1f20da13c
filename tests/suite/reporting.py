"""A pytest plugin that tells the runner of the suite what its session does, one JSON object a line over a pipe.

Loaded by `session` with -p; the pipe's number comes in an environment variable.
"""

import json
import os
import resource
from collections import Counter
from typing import Any, Final

import pytest

PIPE: Final = "TEMPOLET_SUITE_PIPE"
RERUN: Final = frozenset({"node", "cluster", "systemd", "browser"})
"""Markers of the tests that may be run once more: they wait for processes, not only for their own code."""


def pytest_configure(config: pytest.Config) -> None:
    """Begin to report."""
    descriptor = int(os.environ.pop(PIPE))
    os.set_inheritable(descriptor, False)  # a process that outlives the session must not keep the pipe open
    config.pluginmanager.register(_Reporter(descriptor))


class _Reporter:
    def __init__(self, descriptor: int) -> None:
        self._pipe = os.fdopen(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        self._deselected: Counter[str] = Counter()

    def _tell(self, event: str, **fields: Any) -> None:
        self._pipe.write(json.dumps({"event": event, **fields}) + "\n")

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._deselected.update(_file(item.nodeid) for item in items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        file = _file(report.nodeid)
        if report.failed:
            self._tell("broken", file=file, text=report.longreprtext)
        elif report.skipped and file:
            self._tell("left_out", file=file, text=_reason(report.longrepr))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        tests = [[item.nodeid, any(item.get_closest_marker(name) for name in RERUN)] for item in session.items]
        self._tell("collected", tests=tests, deselected=self._deselected)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome, text = _outcome(report), ""
        if outcome in {"failed", "error"}:
            text = "\n".join([report.longreprtext, *(f"--- {name}\n{said}" for name, said in report.sections)])
        elif outcome == "skipped":
            text = _reason(report.longrepr)
        self._tell("phase", test=report.nodeid, when=report.when, outcome=outcome, seconds=report.duration, text=text)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._tell("finished", test=nodeid)

    def pytest_warning_recorded(self, warning_message: Any, nodeid: str) -> None:
        self._tell("warning", test=nodeid, text=str(warning_message.message))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        self._tell("end", exit=int(exitstatus), cpu=sum(one.ru_utime + one.ru_stime for one in used))


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _outcome(report: pytest.TestReport) -> str:
    """Name what a phase counts as, in the words of pytest's summary; empty where it counts as nothing."""
    if report.failed:
        return "failed" if report.when == "call" else "error"
    if report.skipped:
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    if report.when != "call":
        return ""
    return "xpassed" if hasattr(report, "wasxfail") else "passed"


def _reason(told: object) -> str:
    """Read why a test was skipped: pytest gives path, line and reason."""
    return str(told[2]).removeprefix("Skipped: ") if isinstance(told, tuple) else str(told)
