"""Rules about lifecycle hooks and what they run.

Called by `containers`; source: pkg/apis/core/validation/validation.go, validateLifecycle, validateHandler and what they
call. Each function yields the faults that it finds.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from workflows.decide.validation.field_errors import forbidden, invalid, required

Handler = Mapping[str, Any]

NOT_OF_INIT: Final = "may not be set for init containers without restartPolicy=Always"


def validate_lifecycle(lifecycle: Mapping[str, Any], path: str, *, grace: int) -> Iterator[str]:
    """Judge a container's hooks; `grace` is the pod's, in seconds."""
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            yield from _handler(lifecycle[hook], f"{path}.{hook}", grace)


def _handler(handler: Handler, path: str, grace: int) -> Iterator[str]:
    """Judge the one thing that a hook does; of several the first counts."""
    rules: Mapping[str, Callable[[Handler, str], Iterator[str]]] = {
        "exec": _exec,
        "sleep": lambda sleep, here: _sleep(sleep, here, grace),
    }
    given = [kind for kind in rules if kind in handler]
    if not given:
        yield required(path, "must specify a handler type")
        return
    yield from rules[given[0]](handler[given[0]], f"{path}.{given[0]}")
    for kind in given[1:]:
        yield forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")


def _exec(action: Handler, path: str) -> Iterator[str]:
    if not action.get("command"):
        yield required(f"{path}.command")


def _sleep(action: Handler, path: str, grace: int) -> Iterator[str]:
    if not 0 <= (seconds := action.get("seconds", 0)) <= grace:
        yield invalid(path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace})")
