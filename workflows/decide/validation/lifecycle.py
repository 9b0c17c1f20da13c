"""Rules about a container's lifecycle hooks.

Called by `containers`; source: pkg/apis/core/validation/validation.go, validateLifecycle, validateHandler and
validateSleepAction. What a hook shares with a probe is judged by `probes`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from workflows.decide.validation.field_errors import forbidden, invalid, required
from workflows.decide.validation.probes import validate_handler

Fields = Mapping[str, Any]

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")


def validate_lifecycle(container: Fields, path: str, *, grace: int) -> Iterator[str]:
    """Judge a regular container's hooks; `grace` is the pod's, in seconds."""
    lifecycle = container.get("lifecycle", {})
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            yield from _hook(lifecycle[hook], f"{path}.lifecycle.{hook}", container, grace)


def refuse_lifecycle(container: Fields, path: str) -> Iterator[str]:
    """Refuse the hooks of a container that runs to its end."""
    if "lifecycle" in container:
        yield forbidden(f"{path}.lifecycle", "may not be set for init containers without restartPolicy=Always")


def _hook(hook: Fields, path: str, container: Fields, grace: int) -> Iterator[str]:
    """Judge the one thing that a hook does; of several the first counts."""
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
