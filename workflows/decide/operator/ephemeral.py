"""Whether an ephemeral container may be added to a pod, and the pod with it: the Update AddEphemeralContainer.

An added container starts once, is never restarted, stops with the pod, and does not count for its phase or readiness.
An API server rejects ephemeral containers of a static pod, because its mirror pod does not run. The pod of a workflow
runs, so here they are allowed.
"""

from proto.temporal.operator import AddEphemeralContainer, EphemeralContainerAdded
from proto.temporal.pod import Lifecycle, PodJson
from workflows.decide.containers.standing import pod_is_done
from workflows.decide.containers.targets import no_target
from workflows.decide.refusal import Refusal
from workflows.decide.situation import Situation


def why_not(situation: Situation, asked: AddEphemeralContainer) -> Refusal | None:
    """Return why the container is rejected: Invalid or PodIsOver."""
    pod, observed = situation.key, situation.observed
    if observed.deletion:
        return Refusal("PodIsOver", f"{pod} is terminating ({observed.deletion.reason}): nothing starts in it any more")
    if observed.lifecycle is not Lifecycle.SYNC or pod_is_done(situation):
        return Refusal("PodIsOver", f"{pod} has finished: nothing starts in it any more")
    _, faults = judged(situation, asked)
    return Refusal("Invalid", "; ".join(faults)) if faults else None


def judged(situation: Situation, asked: AddEphemeralContainer) -> tuple[PodJson, tuple[str, ...]]:
    """Apply defaults to the container, and list everything that is wrong with it."""
    from workflows.decide.manifest.validation.ephemeral import judge_ephemeral_container  # noqa: PLC0415 - 0.5 MB that few workers ever need

    found = judge_ephemeral_container(situation.source, asked.container)
    return found.container, found.faults


def with_asked(situation: Situation, asked: AddEphemeralContainer) -> PodJson | None:
    """Return the pod with the ephemeral container; None if it is rejected."""
    if why_not(situation, asked):
        return None
    pod = situation.source
    spec, (added, _) = pod["spec"], judged(situation, asked)
    return {**pod, "spec": {**spec, "ephemeralContainers": [*spec.get("ephemeralContainers", ()), added]}}


def added_answer(situation: Situation, asked: AddEphemeralContainer) -> EphemeralContainerAdded:
    """Return the Update's answer."""
    container, target = asked.container, asked.container.get("targetContainerName") or ""
    lack = no_target(situation, target) if target else None
    return EphemeralContainerAdded(
        operator=asked.operator,
        pod_uid=situation.key.uid,
        container=container["name"],
        image=container["image"],
        target=target,
        waits_for=lack.message if lack else "",
    )
