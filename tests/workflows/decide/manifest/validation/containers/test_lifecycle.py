"""Is a lifecycle hook refused exactly when the API's ValidatePodCreate refuses it, with the same message?

The rows are those of TestValidateLifecycle, TestValidateHandler and TestValidateSleepAction
(pkg/apis/core/validation/validation_test.go).
"""

from typing import Any

import pytest

from activities.cri_config.stop_signals import cri_signal, signal_name
from proto.cri.v1 import api_pb2 as cri
from tests.workflows.decide.pods import Pod, container, pod
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import POD
from workflows.decide.manifest.validation.pod import validate_pod

C0 = "spec.containers[0].lifecycle"
EXEC = {"exec": {"command": ["true"]}}


def post_start(**handler: Any) -> Pod:
    """Build a container with a postStart hook."""
    return container(lifecycle={"postStart": handler})


def sleeping(seconds: int, grace: int) -> Pod:
    """Build a container with a preStop hook that sleeps."""
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
    """Each error by its path, with the API's message."""
    read = read_structure(given, POD)
    assert (read.faults, read.not_yet) == ((), ())
    assert list(validate_pod(default_pod(read.content))) == faults


def stopping(signal: str, os: dict[str, Any] | None = None, **spec: Any) -> Pod:
    """Build a container with a stop signal, in a pod with an operating system."""
    made = container(lifecycle={"stopSignal": signal})
    made["spec"] |= spec if os is None else {"os": os, **spec}
    return made


LINUX = {"name": "linux"}


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        pytest.param(stopping("SIGUSR1", LINUX), [], id="a-signal-of-linux"),
        pytest.param(stopping("SIGRTMIN+15", LINUX), [], id="a-real-time-signal"),
        pytest.param(stopping("SIGRTMAX-14", LINUX), [], id="a-real-time-signal-counted-down"),
        pytest.param(
            stopping("SIGTERM"),
            [f"{C0}.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"],
            id="no-operating-system",
        ),
        pytest.param(
            stopping("SIGTERM", {}), ["spec.os.name: Required value"], id="an-operating-system-without-a-name"
        ),
        pytest.param(
            stopping("SIGUSR1", {"name": "windows"}),
            [f'{C0}.stopSignal: Unsupported value: "SIGUSR1": supported values: "SIGKILL", "SIGTERM"'],
            id="windows-knows-two",
        ),
        pytest.param(stopping("SIGKILL", {"name": "windows"}), [], id="a-signal-of-windows"),
        pytest.param(
            stopping("SIGUSR1", {"name": "plan9"}),
            ['spec.os: Unsupported value: "plan9": supported values: "linux", "windows"'],
            id="another-operating-system",
        ),
        pytest.param(
            pod(
                initContainers=[{"name": "first", "image": "busybox", "lifecycle": {"stopSignal": "SIGINT"}}], os=LINUX
            ),
            [
                (
                    "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without"
                    " restartPolicy=Always"
                )
            ],
            id="an-init-container-has-none",
        ),
    ],
)
def test_stop_signals(given: Pod, faults: list[str]) -> None:
    """As the API validates them with the feature gate on."""
    read = read_structure(given, POD)
    assert (read.faults, read.not_yet) == ((), ())
    assert list(validate_pod(default_pod(read.content))) == faults


@pytest.mark.parametrize("signal", ["", "USR1", "sigusr1", "SIGRTMIN+16", "SIGRTMAX-15", "10"])
def test_what_is_no_signal(signal: str) -> None:
    """A typing error is refused, and all valid ones are listed."""
    (fault,) = validate_pod(default_pod(stopping(signal, LINUX)))
    assert fault.startswith(f'{C0}.stopSignal: Unsupported value: "{signal}": supported values: "SIGABRT", "SIGALRM"')
    assert fault.count("SIG") - signal.count("SIG") == 65


def test_every_signal_is_known_to_cri() -> None:
    """What is accepted can be sent to the runtime, and is returned with the same name."""
    (fault,) = validate_pod(default_pod(stopping("none", LINUX)))
    names = fault.partition("supported values: ")[2].replace('"', "").split(", ")
    assert [signal_name(cri.Signal.Value(cri_signal(one) or "")) for one in names] == names
