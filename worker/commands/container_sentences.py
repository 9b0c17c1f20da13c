"""Why each container was stopped or started again, one line each: who or what asked, how it ended, what it had to wait for.

Asked by `sentences` for what starts, stops and ends containers. Everything stands in the history: a stop's request carries
its reason, grace and since when that counts, its answer the end; a restart's back-off is the core's own rule
(`decide/backoff.py`), asked about the ends that were told.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.activities.requests import (
    RemoveContainer,
    RuntimeContainer,
    ShortenStop,
    StartContainer,
    StopContainer,
)
from proto.temporal.operator import BackoffsSkipped, EphemeralContainerAdded
from proto.temporal.pod import ContainerState, Observed, PodJson
from worker.commands.told import Done, Instances, Told, seconds
from workflows.decide.containers.backoff import Backoff, after_restart, due
from workflows.decide.containers.definitions import containers_of, resets_backoff
from workflows.decide.containers.restart import RuleAction, matching_rule
from workflows.decide.hooks.hooks import FAILED
from workflows.decide.manifest.hook_terms import OWN_HOOKS

SIGKILLED: Final = 137
IDENTITY: Final = 12
"""Characters of an id that tell it from others, as crictl shows it."""
RESTART_ALL: Final = RuleAction.RESTART_ALL.value
EARLY: Final = timedelta(milliseconds=100)
"""How far before its grace was over a SIGKILL may seem to have come: two clocks tell of it."""


def started(told: Told, done: Done) -> Iterator[str]:
    """Tell a start, and of a restart why it came and when."""
    asked: StartContainer = done.asked
    seen: RuntimeContainer = done.answer
    known = told.of(seen.name)
    again = f", restart {seen.attempt}" if seen.attempt else ""
    why = restart_words(known, asked, done.at) if seen.attempt and seen.container_id != known.container_id else ""
    new_instance(told, known, seen)
    known.sandbox_id, known.spec = asked.sandbox_id, asked.container
    yield f"container {seen.name} started{again} ({seconds(start_took(done))}){why}{unheard_signal(asked, seen)}"
    yield from ends(told, [seen])


def unheard_signal(asked: StartContainer, seen: RuntimeContainer) -> str:
    """Say that the runtime takes no notice of the stop signal that was asked for."""
    wanted = (asked.container.get("lifecycle") or {}).get("stopSignal", "")
    if wanted in ("", seen.stop_signal):
        return ""
    instead = seen.stop_signal or "its image's, or SIGTERM"
    return f"; the runtime takes no notice of its stopSignal {wanted}: {instead} will stop it"


def start_took(done: Done) -> timedelta:
    """Say how long a start took; one that was to tell an end as well has waited for that on top, by the runtime's clock."""
    begun_at = done.answer.started_at
    return min(done.took, max(begun_at - done.at, timedelta())) if done.asked.end_within and begun_at else done.took


def new_instance(told: Told, known: Instances, seen: RuntimeContainer) -> None:
    """Take an instance as the newest; the end of the one before it earns a back-off, as in `decide/instances.py`."""
    if known.container_id == seen.container_id:
        return
    if known.container_id and known.restarted_for in ("", seen.name):  # others that start again with one earn nothing
        begun_at = seen.created_at or seen.started_at or seen.finished_at
        ended_at = known.end.finished_at if known.end else begun_at
        if begun_at and ended_at:
            maximum = told.settings.max_container_restart_period
            known.backoff = after_restart(known.backoff, ended_at, begun_at, maximum)
    known.container_id, known.end, known.stopped_because = seen.container_id, None, ""
    known.skipped_by = known.restarted_for = ""


def continued(told: Told, observed: Observed) -> None:
    """Take over what a run begins with: the story of the run before it may be kept no longer."""
    for name, facts in observed.containers.items():
        known = told.of(name)
        known.container_id, known.sandbox_id = facts.container_id, facts.sandbox_id
        known.backoff = Backoff(facts.backoff, facts.backoff_at)


def redefined(told: Told, pod: PodJson) -> None:
    """Take an edit over: a container with another image or other resources begins its back-off anew, as in `definitions`."""
    for before, after in zip(containers_of(told.pod), containers_of(pod), strict=True):
        if resets_backoff(before, after):
            told.of(after["name"]).backoff = Backoff()
    told.pod = pod


def restart_words(known: Instances, asked: StartContainer, at: datetime) -> str:
    """Say why a container starts again: its policy or ours, and which back-off came before."""
    if known.end is None:
        return ": the one before it was lost" if known.container_id else ""
    after = f"after {end_words(known.end)}"
    if known.stopped_because:
        after += f" by our stop ({known.stopped_because})"
    if known.restarted_for and known.restarted_for != asked.container.get("name"):
        return f": with all containers, as the rule of {known.restarted_for} asks, {after}"
    return f": {cause_words(known, asked, known.end)} {after}, " + (backoff_words(known, at))


def cause_words(known: Instances, asked: StartContainer, end: RuntimeContainer) -> str:
    """Say what starts it again: a new sandbox, another image, else a rule or policy."""
    if known.sandbox_id not in ("", asked.sandbox_id):
        return "in a new sandbox"
    before, image = known.spec.get("image"), asked.container.get("image")
    return f"with image {image} instead of {before}" if before and before != image else policy_of(asked, end)


def policy_of(asked: StartContainer, end: RuntimeContainer) -> str:
    """Say what started it again: its own rule about that exit code, its own restart policy, else the pod's."""
    if rule := rule_for(asked.container, end):
        return f"rule {rule}"
    own = asked.container.get("restartPolicy")
    return f"policy {own or asked.sandbox_spec.get('spec', {}).get('restartPolicy', 'Always')}"


def rule_for(container: PodJson, end: RuntimeContainer) -> str:
    """Say the action of the restart rule that speaks of an end; empty where none does."""
    spec = V1Container.from_dict(container) if container.get("restartPolicyRules") else None
    rule = matching_rule(spec, end.exit_code) if spec and end.exit_code is not None else None
    return rule.action if rule else ""


def removed(told: Told, done: Done) -> Iterator[str]:
    """Tell the removal of an instance; that of the newest is the first half of starting all containers again."""
    asked: RemoveContainer = done.asked
    known = told.of(asked.name)
    if asked.container_id == known.container_id:
        asks = (name for name, one in told.containers.items() if one.end and rule_for(one.spec, one.end) == RESTART_ALL)
        known.restarted_for = known.restarted_for or next(asks, "")
    yield f"dead instance {asked.container_id[:IDENTITY]} of container {asked.name} removed ({seconds(done.took)})"


def backoff_words(known: Instances, at: datetime) -> str:
    """Say which back-off the restart had to wait for, and who cut it short."""
    ended_at = known.end.finished_at if known.end else None
    delay = due(known.backoff, ended_at) - ended_at if ended_at else timedelta()
    if ended_at is None or not delay:
        return "without back-off"
    if known.skipped_by:
        return f"back-off of {seconds(delay)} skipped by {known.skipped_by} after {seconds(at - ended_at)}"
    return f"back-off {seconds(delay)}"


def hook_ended(_: Told, done: Done) -> Iterator[str]:
    """Tell how a lifecycle hook ended, and that it ran again where nobody knows how it had ended before."""
    asked, end = done.asked, done.answer
    again = ", run again, for nobody knows how an earlier try ended" if end.again else ""
    which = f"{asked.hook} of {asked.name}" + (f" {asked.reason}" if asked.hook in OWN_HOOKS else "")
    tries = f", at try {end.tries}" if end.tries > 1 else ""
    if end.succeeded:
        yield f"{which} done in {seconds(done.took)}{tries}{again}"
    else:
        yield f"{which} failed after {seconds(done.took)}: {FAILED[asked.hook]}: {end.message}{tries}{again}"


def stopped(told: Told, done: Done) -> Iterator[str]:
    """Tell a stop in one line: how it ended, how much of its grace that took, who asked, and its last words."""
    asked: StopContainer | ShortenStop = done.asked
    end: RuntimeContainer | None = done.answer
    known = told.of(asked.name)
    who = told.deleted_by.get(asked.reason)
    why = f"why: {asked.reason}" + (f" (asked by {who})" if who else "")
    if end is None or end.state is not ContainerState.EXITED:
        yield f"container {asked.name} stopped in {seconds(done.took)}, its end is not known; {why}"
        return
    if known.stopped_because and end.container_id == known.container_id:
        return  # told by the other of two stops: they come back with one end
    if end.container_id in told.ended:
        yield f"container {asked.name} had ended before it was stopped; {why}"
        return
    if end.finished_at and end.finished_at < asked.asked_at:
        yield from ends(told, [end])
        return
    remember(told, known, end)
    known.stopped_because = asked.reason
    yield f"container {asked.name} stopped: {end_words(end)}, {grace_words(counting(known, asked, end), end, done.took)}; {why}{last_words(end)}"


def shortened(told: Told, done: Done) -> Iterator[str]:
    """Tell that a stop under way was given less time, and then its end."""
    yield f"the stop of container {done.asked.name} was shortened to {seconds(done.asked.grace)} of grace"
    yield from stopped(told, done)


def is_shortened(told: Told, asked: ShortenStop) -> None:
    """Remember the shortest grace that a stop under way is told: the stop itself may answer first."""
    known = told.of(asked.name)
    if counting(known, asked, None) is asked:
        known.shortened = asked


def counting(
    known: Instances, asked: StopContainer | ShortenStop, end: RuntimeContainer | None
) -> StopContainer | ShortenStop:
    """Say which of a container's stops gave it the least time, of those that were asked before its end."""
    other = known.shortened
    if other is None or other.container_id != asked.container_id:
        return asked
    if end and end.finished_at and end.finished_at < other.asked_at:
        return asked
    return min(asked, other, key=lambda one: one.asked_at + one.grace)


def grace_words(asked: StopContainer | ShortenStop, end: RuntimeContainer, took: timedelta) -> str:
    """Say how much of the grace was used, and whether SIGKILL was needed."""
    used = end.finished_at - asked.asked_at if end.finished_at else took
    if end.exit_code == SIGKILLED and used >= asked.grace - EARLY:
        return f"by SIGKILL after its grace of {seconds(asked.grace)}"
    return f"after {seconds(max(used, timedelta()))} of {seconds(asked.grace)} grace"


def ends(told: Told, containers: Iterable[RuntimeContainer]) -> Iterator[str]:
    """Tell each container's end once, in the order in which they ended."""
    for one in sorted(containers, key=lambda seen: (seen.finished_at is None, str(seen.finished_at), seen.attempt)):
        if one.state is not ContainerState.EXITED or one.container_id in told.ended:
            continue
        remember(told, told.of(one.name), one)
        lasted = max(one.finished_at - one.started_at, timedelta()) if one.finished_at and one.started_at else None
        ran = f" after {seconds(lasted)}" if lasted is not None else ""
        foreign = " (a SIGKILL that was not ours)" if one.exit_code == SIGKILLED and one.reason == "Error" else ""
        yield f"container {one.name} ended: {end_words(one)}{foreign}{ran}{last_words(one, ': ')}"


def remember(told: Told, known: Instances, end: RuntimeContainer) -> None:
    """Write down that an end is told, for what starts next."""
    told.ended.add(end.container_id)
    new_instance(told, known, end)
    known.end = end


def end_words(end: RuntimeContainer) -> str:
    """Say how it ended."""
    return f"exit {end.exit_code}" + (f" {end.reason}" if end.reason else "")


def last_words(end: RuntimeContainer, before: str = "; it said: ") -> str:
    """Say its termination message."""
    return f"{before}{end.message.strip()}" if end.message.strip() else ""


def skipped(told: Told, answer: BackoffsSkipped) -> Iterator[str]:
    """Tell who ended which back-offs before their time."""
    for one in answer.skipped:
        what = f"{one.image} ({one.reason})" if one.image else one.container
        if not one.image:
            told.of(one.container).skipped_by = answer.operator
        yield f"operator {answer.operator} skipped the back-off of {what} ({seconds(one.left)} left)"
    if not answer.skipped:
        yield f"operator {answer.operator} asked to skip a back-off that was over already"


def added(_: Told, answer: EphemeralContainerAdded) -> Iterator[str]:
    """Tell who looks into the pod, and with what."""
    into = f", to see the processes of {answer.target}" if answer.target else ""
    waits = f" ({answer.waits_for})" if answer.waits_for else ""
    yield f"operator {answer.operator} added ephemeral container {answer.container} of {answer.image}{into}{waits}"
