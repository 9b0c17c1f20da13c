"""Rules about a container's lifecycle: its hooks and its stop signal.

Source: pkg/apis/core/validation/validation.go, validateLifecycle, validateHandler, validateSleepAction and
validateStopSignal. `probes` validates handlers.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from workflows.decide.manifest.fields.field_errors import forbidden, invalid, not_supported, required
from workflows.decide.manifest.validation.containers.probes import validate_handler

Fields = Mapping[str, Any]

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_NAMED: Final = (
    *("ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL", "PIPE", "POLL"),
    *("PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP", "TTIN", "TTOU", "URG", "USR1"),
    *("USR2", "VTALRM", "WINCH", "XCPU", "XFSZ"),
)
_REAL_TIME: Final = (
    *("RTMIN", *(f"RTMIN+{number}" for number in range(1, 16))),
    *("RTMAX", *(f"RTMAX-{number}" for number in range(1, 15))),
)
_STOP_SIGNALS: Final = {
    "linux": tuple(sorted(f"SIG{name}" for name in (*_NAMED, *_REAL_TIME))),
    "windows": ("SIGKILL", "SIGTERM"),
}


def validate_lifecycle(container: Fields, path: str, *, grace: int, os: str | None = None) -> Iterator[str]:
    """Validate a container's hooks and stop signal; `grace` is the pod's, in seconds, `os` its spec.os.name."""
    lifecycle = container.get("lifecycle", {})
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            yield from _hook(lifecycle[hook], f"{path}.lifecycle.{hook}", container, grace)
    if "stopSignal" in lifecycle:
        yield from _stop_signal(lifecycle["stopSignal"], f"{path}.lifecycle.stopSignal", os)


def _stop_signal(signal: str, path: str, os: str | None) -> Iterator[str]:
    if os is None:
        yield forbidden(path, "may not be set for containers with empty `spec.os.name`")
    elif signal not in (known := _STOP_SIGNALS.get(os, (signal,))):
        yield not_supported(path, signal, known)


def stop_signals(spec: Fields) -> Iterator[str]:
    """Yield the path of every stop signal in a pod's spec."""
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind, ())):
            if "stopSignal" in container.get("lifecycle", {}):
                yield f"spec.{kind}[{index}].lifecycle.stopSignal"


def refuse_lifecycle(container: Fields, path: str) -> Iterator[str]:
    """Reject the hooks of an init container that is no sidecar."""
    if "lifecycle" in container:
        yield forbidden(f"{path}.lifecycle", "may not be set for init containers without restartPolicy=Always")


def _hook(hook: Fields, path: str, container: Fields, grace: int) -> Iterator[str]:
    """Validate a hook's handler; of several the first counts."""
    given = [kind for kind in _HANDLERS if kind in hook]
    match given:
        case []:
            yield required(path, "must specify a handler type")
        case ["sleep", *_]:
            yield from _sleep(hook["sleep"], f"{path}.sleep", grace)
        case [kind, *_]:
            yield from validate_handler(kind, hook[kind], f"{path}.{kind}", container)
    for kind in given[1:]:
        yield forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")


def _sleep(action: Fields, path: str, grace: int) -> Iterator[str]:
    if not 0 <= (seconds := action.get("seconds", 0)) <= grace:
        yield invalid(path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace})")
