"""Pods of every shape, what is done to each, and what it then is: written down here, not learnt from a node."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.node.away.outages.ledger import MOUNTED, Ledger
from tests.node.tempolet_node import BUSYBOX

Json = dict[str, Any]
NAP: Final = "trap 'exit 0' TERM; sleep 3600 & wait"


@dataclass(frozen=True, slots=True)
class Act:
    """What is done to a pod: `kill` a container, `set` or `unset` a flag, `edit`."""

    verb: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a pod is, some time after an act; `act` None: after its birth."""

    act: Act | None = None
    phase: str = "Running"
    is_ready: bool = True
    restarts: Mapping[str, int] = field(default_factory=dict)
    """By container; 0 of those that are not named."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of pod."""

    build: Callable[[str, Ledger], Json]
    """Its manifest, from its name."""
    stages: Sequence[Stage]
    lines: Mapping[str, int]
    """What the ledger has when the pod is gone, after all its stages: each line, and how often."""
    told: Sequence[Sequence[str]]
    """What its history tells then, of each UID, as `stories.facts_of` has it."""


def pod(name: str, *containers: Json, **spec: Any) -> Json:
    """Build a manifest."""
    ledger = {"name": "ledger", "hostPath": {"path": spec.pop("ledger")}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": spec.pop("annotations", {})},
        "spec": {"terminationGracePeriodSeconds": 60, "containers": [*containers], "volumes": [ledger], **spec},
    }


def container(pod_name: str, ledger: Ledger, command: str = NAP, name: str = "main", **more: Any) -> Json:
    """Build a container that says in the ledger that it has started."""
    return {
        "name": name,
        "image": BUSYBOX,
        "command": ["sh", "-c", f"{ledger.append_command(name, 'start')}; {command}"],
        "env": [
            {"name": "POD", "value": pod_name},
            {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        ],
        "volumeMounts": [{"name": "ledger", "mountPath": MOUNTED}],
        **more,
    }


def shell(command: str) -> Json:
    """Build a handler that runs a command in its container."""
    return {"exec": {"command": ["sh", "-c", command]}}


def hooks(ledger: Ledger, name: str = "main", before_stop: str = "true") -> Json:
    """Build the lifecycle of a container that says when its hooks run."""
    return {
        "lifecycle": {
            "postStart": shell(ledger.append_command(name, "postStart")),
            "preStop": shell(f"{ledger.append_command(name, 'preStop')}; {before_stop}"),
        }
    }


def _hooked(name: str, ledger: Ledger) -> Json:
    annotations = {
        f"{hook}.tempolet.dev/main": json.dumps(ledger.asking(name, "main", hook)) for hook in ("preStart", "postStop")
    }
    main = container(name, ledger, **hooks(ledger))
    return pod(name, main, annotations=annotations, ledger=str(ledger.folder))


def _inits(name: str, ledger: Ledger) -> Json:
    inits = [container(name, ledger, "sleep 0.3", "first"), container(name, ledger, "sleep 0.3", "second")]
    return pod(name, container(name, ledger), initContainers=inits, ledger=str(ledger.folder))


def _sidecar(name: str, ledger: Ledger) -> Json:
    side = container(name, ledger, name="side", restartPolicy="Always", **hooks(ledger, "side"))
    return pod(name, container(name, ledger), initContainers=[side], ledger=str(ledger.folder))


def _crashes(name: str, ledger: Ledger) -> Json:
    main = container(name, ledger, f'[ $(grep -c "^$POD .* main start$" {MOUNTED}/lines) -gt 3 ] || exit 7; {NAP}')
    return pod(name, main, ledger=str(ledger.folder))


def _job(name: str, ledger: Ledger) -> Json:
    main = container(name, ledger, f'[ $(grep -c "^$POD .* main start$" {MOUNTED}/lines) -gt 1 ] || exit 1; sleep 1')
    return pod(name, main, restartPolicy="OnFailure", ledger=str(ledger.folder))


def _failing(name: str, ledger: Ledger) -> Json:
    waits = f"until [ -e {MOUNTED}/$POD.end ]; do sleep 0.5; done; exit 3"
    return pod(name, container(name, ledger, waits), restartPolicy="Never", ledger=str(ledger.folder))


def _probed(name: str, ledger: Ledger) -> Json:
    probe = {**shell(f"test -e {MOUNTED}/{name}.ready"), "periodSeconds": 2, "failureThreshold": 1}
    return pod(name, container(name, ledger, readinessProbe=probe), ledger=str(ledger.folder))


def _sick(name: str, ledger: Ledger) -> Json:
    probe = {**shell(f"test ! -e {MOUNTED}/{name}.sick"), "periodSeconds": 2, "failureThreshold": 1}
    main = container(name, ledger, f"rm -f {MOUNTED}/$POD.sick; {NAP}", livenessProbe=probe, **hooks(ledger))
    return pod(name, main, ledger=str(ledger.folder))


def _plain(name: str, ledger: Ledger) -> Json:
    return pod(name, container(name, ledger), ledger=str(ledger.folder))


def _slow_to_stop(name: str, ledger: Ledger) -> Json:
    return pod(name, container(name, ledger, **hooks(ledger, before_stop="sleep 2")), ledger=str(ledger.folder))


def _killed(name: str = "main", **restarts: int) -> Stage:
    return Stage(Act("kill", name), restarts=restarts or {name: 1})


def _told(*facts: str, gone: str = "Succeeded, restarts 0", why: str = "ManifestRemoved") -> Sequence[str]:
    """Add what every pod's history tells."""
    begin, asked = ("listed", "sandbox 0 ready"), f"deletion requested: file: {why}"
    end = ("sandbox stopped", "volume ledger unmounted", "sandbox removed", "directories, logs and cgroup removed")
    return (*begin, *facts, asked, *end, f"the pod is gone: {gone}")


def _restarted(name: str = "main", number: int = 1, after: str = "exit 137 Error", policy: str = "Always") -> str:
    return f"{name} started, restart {number} policy {policy} after {after}"


STOPPED: Final = "main stopped: exit 0 Completed"
KILLED: Final = "main ended: exit 137 Error"
CRASHED: Final = "main ended: exit 7 Error"
SICK: Final = "exit 0 Completed by our stop (Container main failed liveness probe, will be restarted)"
SHAPES: Final[Mapping[str, Shape]] = {
    "hooked": Shape(
        _hooked,
        [Stage(), _killed(), _killed(main=2)],
        {"main start": 3, "main preStart": 3, "main postStart": 3, "main preStop": 1, "main postStop": 3},
        [
            _told(
                *("main started", _restarted(), _restarted(number=2), KILLED, KILLED, STOPPED),
                *(f"preStart of main before {what} done" for what in ("its start", "restart 1", "restart 2")),
                *(f"postStop of main after exit {code} done" for code in (137, 137, 0)),
                *["postStart of main done"] * 3,
                "preStop of main done",
                gone="Succeeded, restarts 2",
            )
        ],
    ),
    "inits": Shape(
        _inits,
        [Stage(), _killed()],
        {"first start": 1, "second start": 1, "main start": 2},
        [
            _told(
                *("first started", "first ended: exit 0 Completed", "second started", "second ended: exit 0 Completed"),
                *("main started", KILLED, _restarted(), STOPPED),
                gone="Succeeded, restarts 1",
            )
        ],
    ),
    "sidecar": Shape(
        _sidecar,
        [Stage(), _killed("side"), _killed(side=1, main=1)],
        {"side start": 2, "side postStart": 2, "side preStop": 1, "main start": 2},
        [
            _told(
                *("side started", "side ended: exit 137 Error", _restarted("side"), "side stopped: exit 0 Completed"),
                *("postStart of side done", "postStart of side done", "preStop of side done"),
                *("main started", KILLED, _restarted(), STOPPED),
                gone="Succeeded, restarts 2",
            )
        ],
    ),
    "crashes": Shape(
        _crashes,
        [Stage(restarts={"main": 3})],
        {"main start": 4},
        [
            _told(
                *("main started", *(_restarted(number=one, after="exit 7 Error") for one in (1, 2, 3))),
                *(CRASHED, CRASHED, CRASHED, STOPPED),
                gone="Succeeded, restarts 3",
            )
        ],
    ),
    "job": Shape(
        _job,
        [Stage(phase="Succeeded", is_ready=False, restarts={"main": 1})],
        {"main start": 2},
        [
            _told(
                *("main started", "main ended: exit 1 Error", "main ended: exit 0 Completed"),
                _restarted(after="exit 1 Error", policy="OnFailure"),
                gone="Succeeded, restarts 1",
            )
        ],
    ),
    "failing": Shape(
        _failing,
        [Stage(), Stage(Act("set", "end"), phase="Failed", is_ready=False)],
        {"main start": 1},
        [_told("main started", "main ended: exit 3 Error", gone="Failed, restarts 0")],
    ),
    "probed": Shape(
        _probed,
        [
            Stage(is_ready=False),
            Stage(Act("set", "ready")),
            Stage(Act("unset", "ready"), is_ready=False),
            Stage(Act("set", "ready")),
        ],
        {"main start": 1},
        [_told("main started", STOPPED)],
    ),
    "sick": Shape(
        _sick,
        [Stage(), Stage(Act("set", "sick"), restarts={"main": 1})],
        {"main start": 2, "main postStart": 2, "main preStop": 2},
        [
            _told(
                *("main started", "container main failed its liveness probe", _restarted(after=SICK)),
                *["postStart of main done", "preStop of main done", STOPPED] * 2,
                gone="Succeeded, restarts 1",
            )
        ],
    ),
    "edited": Shape(
        _plain,
        [Stage(), Stage(Act("edit"))],
        {"main start": 2},
        [_told("main started", STOPPED, why="ManifestReplaced"), _told("main started", STOPPED)],
    ),
    "slow": Shape(
        _slow_to_stop,
        [Stage()],
        {"main start": 1, "main postStart": 1, "main preStop": 1},
        [_told("main started", "postStart of main done", "preStop of main done", STOPPED)],
    ),
}
"""By name; a life that is cut short ends earlier, and does less."""
