"""Whether an ephemeral container may be added to a pod, and what the pod is with it.

Asked by PodWorkflow for the Update AddEphemeralContainer. From then on it is one of the pod's containers: started once, never
again, stopped with the pod, and no part of its phase or readiness (`containers`, `targets`, `termination_order`, `phase`). An
API server would refuse it in a static pod, whose mirror nobody runs; here the pod in the workflow is the one that runs.
"""

from proto.temporal.operator import AddEphemeralContainer, EphemeralContainerAdded
from proto.temporal.pod import Lifecycle, PodJson
from workflows.decide.containers.standing import pod_is_done
from workflows.decide.containers.targets import no_target
from workflows.decide.refusal import Refusal
from workflows.decide.situation import Situation


def why_not(situation: Situation, asked: AddEphemeralContainer) -> Refusal | None:
    """Say why it is not added, if so: Invalid or PodIsOver."""
    pod, observed = situation.key, situation.observed
    if observed.deletion:
        return Refusal("PodIsOver", f"{pod} is going ({observed.deletion.reason}): nothing starts in it any more")
    if observed.lifecycle is not Lifecycle.SYNC or pod_is_done(situation):
        return Refusal("PodIsOver", f"{pod} has finished: nothing starts in it any more")
    _, faults = judged(situation, asked)
    return Refusal("Invalid", "; ".join(faults)) if faults else None


def judged(situation: Situation, asked: AddEphemeralContainer) -> tuple[PodJson, tuple[str, ...]]:
    """Fill in what the container leaves open, and name everything that is wrong with it."""
    from workflows.decide.manifest.validation.ephemeral import judge_ephemeral_container  # noqa: PLC0415 - 0.5 MB, which a worker has no use for before

    found = judge_ephemeral_container(situation.source, asked.container)
    return found.container, found.faults


def with_asked(situation: Situation, asked: AddEphemeralContainer) -> PodJson | None:
    """Write the pod as it is with one ephemeral container more; None where it is refused."""
    if why_not(situation, asked):
        return None
    pod = situation.source
    spec, (added, _) = pod["spec"], judged(situation, asked)
    return {**pod, "spec": {**spec, "ephemeralContainers": [*spec.get("ephemeralContainers", ()), added]}}


def added_answer(situation: Situation, asked: AddEphemeralContainer) -> EphemeralContainerAdded:
    """Say what is added to the pod."""
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
