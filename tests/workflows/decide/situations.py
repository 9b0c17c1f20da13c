"""Builds situations for the tests of `workflows/decide/`: a pod, what is observed of it, and a time, each in one short call.

Times are seconds from NOW. Ids consist of name and attempt: the second instance of web is "web-1", sandboxes are "s0" and
"s1". By default a pod is healthy and its sandbox "s0" is ready.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kubernetes.client.models.v1_pod_spec import V1PodSpec

from proto.temporal.activities.requests import (
    PodRuntime,
    ReadPodRuntime,
    RunHook,
    RuntimeContainer,
    StartContainer,
    StopContainer,
)
from proto.temporal.images import ImageFacts
from proto.temporal.pod import (
    ContainerFacts,
    ContainerState,
    Exit,
    NodeSettings,
    Observed,
    PodJson,
    PodKey,
    Sandbox,
)
from proto.temporal.pod_inputs import Deletion
from workflows.decide.actions import Action, Wake, key
from workflows.decide.ending.grace import DEFAULT
from workflows.decide.keys import image_key
from workflows.decide.record.fold import fold
from workflows.decide.situation import Situation
from workflows.decide.versions import CURRENT

NOW: Final = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
KEY: Final = PodKey("default", "web", "uid-1")
IMAGE: Final = "busybox:1"


def at(seconds: float) -> datetime:
    """Return the time this many seconds after NOW."""
    return NOW + timedelta(seconds=seconds)


def container(name: str, **fields: Any) -> dict[str, Any]:
    """Build a container."""
    return {"name": name, "image": IMAGE, "imagePullPolicy": "IfNotPresent", **fields}


def pod(*names: str, init: Sequence[str] = (), **spec: Any) -> PodJson:
    """Build a pod with these containers, by default one named web. An init container `+name` is a sidecar."""
    containers: dict[str, Any] = {"containers": [container(name) for name in names or ("web",)]}
    if init:
        containers["initContainers"] = [init_container(name) for name in init]
    return {
        "metadata": {"name": KEY.name, "namespace": KEY.namespace, "uid": KEY.uid},
        "spec": {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, **containers, **spec},
    }


def init_container(name: str) -> dict[str, Any]:
    """Build an init container; a name with a plus before it makes a sidecar."""
    return container(name[1:], restartPolicy="Always") if name.startswith("+") else container(name)


def sandbox(attempt: int = 0, *, ready: bool = True, stopped: bool = False) -> Sandbox:
    """Build the facts of a sandbox."""
    return Sandbox(f"s{attempt}", attempt, ready=ready, stopped=stopped, ips=("10.88.0.5",), created_at=NOW)


def up(name: str = "web", attempt: int = 0, *, sandbox_id: str = "s0", **fields: Any) -> ContainerFacts:
    """Build the facts of a running container."""
    known = {"state": ContainerState.RUNNING, "created_at": at(-60), "started_at": at(-60), **fields}
    return ContainerFacts(attempt, f"{name}-{attempt}", sandbox_id, **known)


def down(code: int, name: str = "web", attempt: int = 0, *, ended: float = 0, **fields: Any) -> ContainerFacts:
    """Build the facts of a container that exited with this code, `ended` seconds after NOW."""
    facts = up(name, attempt, **fields)
    reason = "Completed" if code == 0 else "Error"
    facts.exit = Exit(facts.container_id, code, reason, "", facts.started_at, at(ended))
    facts.state = ContainerState.EXITED
    return facts


def done(name: str, *, sandbox_id: str = "s0") -> ContainerFacts:
    """Build the facts of an init container that has succeeded."""
    return down(0, name, sandbox_id=sandbox_id, done_in_sandbox=sandbox_id)


def deletion(*, grace: float = 30, asked: float = 0, again: float | None = None) -> Deletion:
    """Build a deletion; `again` is the time at which this grace period was requested, if it was after the deletion."""
    since = None if again is None else at(again)
    return Deletion(at(asked), timedelta(seconds=grace), "ManifestRemoved", "web.yaml is gone", since)


@dataclass(frozen=True)
class Context:
    """The parts of a situation besides the pod and what is observed of it."""

    now: datetime = NOW
    busy: tuple[Action, ...] = ()
    behaviour: int = CURRENT
    settings: NodeSettings = field(default_factory=lambda: NodeSettings(host_ips=("192.0.2.1",)))
    from_api: bool = False


DEFAULT_CONTEXT: Final = Context()


def situation(source: PodJson | None = None, context: Context = DEFAULT_CONTEXT, **known: Any) -> Situation:
    """Build a situation; by default directories exist, images are present and sandbox s0 is ready."""
    source = source or pod()
    everyone = [*source["spec"].get("initContainers", ()), *source["spec"]["containers"]]
    images = {image_key(one["image"], one["imagePullPolicy"]): ImageFacts("sha256:1", pulled=True) for one in everyone}
    observed = {"started_at": at(-60), "directories": True, "sandbox": sandbox(), "images": images, **known}
    observed.setdefault("next_sandbox_attempt", observed["sandbox"].attempt + 1 if observed["sandbox"] else 0)
    spec = V1PodSpec.from_dict(source["spec"])
    assert spec is not None
    busy = {key(action): action for action in context.busy}
    return Situation(
        KEY,
        spec,
        source,
        Observed(**observed),
        context.now,
        context.settings,
        context.behaviour,
        busy,
        context.from_api,
    )


def seen(name: str = "web", attempt: int = 0, code: int | None = None, **fields: Any) -> RuntimeContainer:
    """Build a container as the runtime reports it; with an exit code it has exited."""
    told = {
        "sandbox_id": "s0",
        "state": ContainerState.RUNNING if code is None else ContainerState.EXITED,
        "exit_code": code,
        "image": IMAGE,
        "image_ref": "sha256:1",
        "created_at": NOW,
        "started_at": NOW,
        "finished_at": None if code is None else NOW,
        **fields,
    }
    return RuntimeContainer(name=name, container_id=f"{name}-{attempt}", attempt=attempt, **told)


def seen_sandbox(attempt: int = 0, *, ready: bool = True, ips: tuple[str, ...] = ("10.88.0.5",)) -> Sandbox:
    """Build a sandbox as the runtime reports it."""
    return Sandbox(f"s{attempt}", attempt, ready, ips, NOW)


def describe_all(answers: Sequence[Action | Wake]) -> list[str]:
    """Describe a decision in short: each action with its subject, or the time of a wait (seconds from NOW)."""
    return [describe(one) for one in answers]


def describe(answer: Action | Wake) -> str:
    """Describe one action or wait in short."""
    if isinstance(answer, Wake):
        return f"wake {(answer.at - NOW).total_seconds():g}"
    subject = key(answer).partition("/")[2]
    more = None if isinstance(answer, RunHook) else getattr(answer, "attempt", None)
    return " ".join([type(answer).__name__, *([subject] if subject else []), *([] if more is None else [str(more)])])


READ: Final = ReadPodRuntime(KEY)
UNKNOWN: Final = "ContainerStatusUnknown"


def starting(name: str = "web", attempt: int = 0) -> StartContainer:
    """Build the request of a start."""
    return StartContainer(KEY, "s0", attempt, "sha256:1", container(name), {})


def stopping(name: str = "web", attempt: int = 0) -> StopContainer:
    """Build the request of a stop."""
    return StopContainer(KEY, name, f"{name}-{attempt}", DEFAULT, at(0), "ManifestRemoved")


def read(here: Situation, *containers: RuntimeContainer, sandboxes: tuple[Sandbox, ...] | None = None) -> Observed:
    """Fold a re-read of the runtime."""
    fold(here, READ, PodRuntime((seen_sandbox(),) if sandboxes is None else sandboxes, containers))
    return here.observed
