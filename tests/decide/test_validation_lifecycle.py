"""Is a lifecycle hook refused exactly where the API's ValidatePodCreate refuses it, in the same words?

The rows are those of TestValidateLifecycle, TestValidateHandler and TestValidateSleepAction
(pkg/apis/core/validation/validation_test.go).
"""

from typing import Any

import pytest

from tests.decide.pods import Pod, container, pod
from workflows.decide.defaults import default_pod
from workflows.decide.supported import POD
from workflows.decide.validation.pod import validate_pod
from workflows.decide.validation.structure import read_structure

C0 = "spec.containers[0].lifecycle"
EXEC = {"exec": {"command": ["true"]}}


def post_start(**handler: Any) -> Pod:
    """Give the container a postStart hook."""
    return container(lifecycle={"postStart": handler})


def sleeping(seconds: int, grace: int) -> Pod:
    """Give the container a preStop hook that sleeps."""
    made = container(lifecycle={"preStop": {"sleep": {"seconds": seconds}}})
    made["spec"]["terminationGracePeriodSeconds"] = grace
    return made


ROWS = [
    pytest.param(container(lifecycle={}), [], id="no-hook"),
    pytest.param(container(lifecycle={"postStart": EXEC, "preStop": EXEC}), [], id="both-exec"),
    pytest.param(post_start(), [f"{C0}.postStart: Required value: must specify a handler type"], id="no-handler"),
    pytest.param(post_start(exec={}), [f"{C0}.postStart.exec.command: Required value"], id="no-command"),
    pytest.param(
        post_start(exec={"command": []}), [f"{C0}.postStart.exec.command: Required value"], id="an-empty-command"
    ),
    pytest.param(
        post_start(sleep={"seconds": 1}, **EXEC),
        [f"{C0}.postStart.sleep: Forbidden: may not specify more than 1 handler type"],
        id="two-handlers",
    ),
    pytest.param(post_start(httpGet={"port": 80}), [], id="http-get-with-defaults"),
    pytest.param(
        post_start(httpGet={"port": 0}),
        [f"{C0}.postStart.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive"],
        id="http-get-of-no-port",
    ),
    pytest.param(post_start(tcpSocket={"port": 80}), [], id="tcp-socket-is-valid"),
    pytest.param(sleeping(0, 30), [], id="sleep-of-zero"),
    pytest.param(container(lifecycle={"preStop": {"sleep": {}}}), [], id="sleep-that-says-nothing"),
    pytest.param(sleeping(30, 30), [], id="sleep-of-the-whole-grace"),
    pytest.param(
        sleeping(31, 30),
        [
            (
                f"{C0}.preStop.sleep: Invalid value: 31: "
                "must be non-negative and less than terminationGracePeriodSeconds (30)"
            )
        ],
        id="sleep-longer-than-the-grace",
    ),
    pytest.param(
        sleeping(-1, 30),
        [
            (
                f"{C0}.preStop.sleep: Invalid value: -1: "
                "must be non-negative and less than terminationGracePeriodSeconds (30)"
            )
        ],
        id="negative-sleep",
    ),
    pytest.param(
        pod(initContainers=[{"name": "first", "image": "a", "lifecycle": {"postStart": EXEC}}]),
        [
            (
                "spec.initContainers[0].lifecycle: Forbidden: "
                "may not be set for init containers without restartPolicy=Always"
            )
        ],
        id="hook-of-an-init-container",
    ),
]


@pytest.mark.parametrize(("given", "faults"), ROWS)
def test_hooks(given: Pod, faults: list[str]) -> None:
    """Each fault by its path, in the API's words."""
    read = read_structure(given, POD)
    assert (read.faults, read.not_yet) == ((), ())
    assert list(validate_pod(default_pod(read.content))) == faults


def test_stop_signals_are_refused() -> None:
    """They need a feature gate that is off."""
    assert read_structure(container(lifecycle={"stopSignal": "SIGUSR1"}), POD).not_yet == (
        f"{C0}.stopSignal: not supported yet",
    )
