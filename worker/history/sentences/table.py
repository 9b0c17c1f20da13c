"""Tables of the sentences for signals, activities and changed search attributes: one row per kind.

Read by `story`. An activity without a row in `ACTIVITIES` is described by its summary. A row has the types of its request and
response, a name for it when it fails, and the sentence for when it completes.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from proto.temporal import hooks, names, signals
from proto.temporal.activities import claims, requests, resize, volumes
from proto.temporal.pod import PodOutcome
from proto.temporal.resources import RuntimeResources
from worker.history.sentences import container_sentences, edit_sentences, resource_sentences, volume_sentences
from worker.history.sentences.probe_sentences import verdict
from worker.history.sentences.story_state import CompletedActivity, StoryState, seconds
from workflows.decide.actions import ACTIONS
from workflows.decide.versions import REBOOT_ENDS_BACKOFFS

WAIT_REPORTED: Final = timedelta(seconds=0.1)
"""A pull reports the time it waited for other pulls from this duration on."""

_IDENTITY: Final = 12  # leading characters of an id that are shown, as in crictl


@dataclass(frozen=True, slots=True)
class ActivityRow:
    """How to read one kind of activity, and the sentences about it."""

    asked: Any
    answer: Any
    what: Callable[[Any], str]
    say: Callable[[StoryState, CompletedActivity], Iterator[str]]
    note: Callable[[StoryState, Any], None] | None = None
    """Called when the activity is scheduled, for what must be known before it completes."""


@dataclass(frozen=True, slots=True)
class SignalRow:
    """How to read one kind of signal, and the sentence about it."""

    kind: Any
    say: Callable[[StoryState, Any], Iterator[str]]


def parse_payload(data: bytes, kind: Any) -> Any:
    """Parse a payload's JSON as a type; None if it cannot be read: another key, or another release."""
    try:
        return _adapter(kind).validate_json(data)
    except (ValidationError, TypeError):
        return None


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


# --- the pod itself


def pod_gone(outcome: PodOutcome | None) -> str:
    """Report how the pod ended."""
    if outcome is None:
        return "the pod is gone"
    why = ": ".join(filter(None, (outcome.reason, outcome.message)))
    return f"the pod is gone: {outcome.phase}, restarts {outcome.restarts}" + (f" ({why})" if why else "")


def attribute(attributes: Mapping[str, Any], name: str) -> str:
    """Return the text of a search attribute."""
    value = attributes.get(name)
    return str((value[0] if isinstance(value, list) and value else value) or "")


def attributes_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Report changes of phase, readiness and reason."""

    def one(name: str) -> tuple[str, bool]:
        return attribute(after, name), before.get(name) != after.get(name)

    (phase, new_phase), (ready, new_ready), (reason, new_reason) = one("PodPhase"), one("PodReady"), one("PodReason")
    said = [phase] * (new_phase and bool(phase))
    said += ["ready" if ready == "True" else "not ready"] * (new_ready and bool(ready))
    why = reason if new_reason else ""
    if said:
        yield f"pod {', '.join(said)}" + (f" ({why})" if why else "")
    elif why:
        yield f"pod shows {why}"


# --- signals


def _deletion(state: StoryState, signal: signals.DeletionRequested) -> Iterator[str]:
    state.deletion = True
    state.deleted_by[f"{signal.reason}: {signal.message}"] = f"the {signal.source} source"
    grace = f", grace {seconds(signal.grace)}" if signal.grace is not None else ""
    why = f": {signal.message}" if signal.message else ""
    text = f"deletion requested by {signal.source}: {signal.reason}{why}{grace}"
    if text not in state.deletions:
        state.deletions.add(text)
        yield text


def _changed(state: StoryState, signal: signals.RuntimeChanged) -> Iterator[str]:
    if signal.source == signals.REBOOT:
        yield "the machine was restarted"
        if state.behaviour >= REBOOT_ENDS_BACKOFFS:
            container_sentences.backoffs_end(state)
    # otherwise only a hint: the runtime read that follows reports what changed


def _status_given(_: StoryState, signal: signals.StatusGiven) -> Iterator[str]:
    if signal.ended:
        why = ": ".join(filter(None, (signal.ended.reason, signal.ended.message)))
        yield f"the API shows the pod as {signal.ended.phase}" + (f" ({why})" if why else "")
    else:
        said = ", ".join(f"{name} {one.status}" for name, one in sorted(signal.conditions.items()))
        yield f"conditions set by others in the API: {said or 'none'}"


def _behaviour_committed(_: StoryState, signal: signals.BehaviourCommitted) -> Iterator[str]:
    yield f"the node is committed to behaviour {signal.behaviour}: the pod takes it up in a quiet moment"


SIGNALS: Final[Mapping[str, SignalRow]] = {
    names.POD_LISTED: SignalRow(signals.PodListed, edit_sentences.listed),
    names.DELETION_REQUESTED: SignalRow(signals.DeletionRequested, _deletion),
    names.RUNTIME_CHANGED: SignalRow(signals.RuntimeChanged, _changed),
    names.PROBE_VERDICT: SignalRow(signals.ProbeVerdict, verdict),
    names.OBJECTS_CHANGED: SignalRow(signals.ObjectsChanged, volume_sentences.changed),
    names.STORAGE_EXCEEDED: SignalRow(signals.StorageExceeded, volume_sentences.exceeded),
    names.STATUS_GIVEN: SignalRow(signals.StatusGiven, _status_given),
    names.BEHAVIOUR_COMMITTED: SignalRow(signals.BehaviourCommitted, _behaviour_committed),
}


# --- activities


def _sandbox_ready(state: StoryState, done: CompletedActivity) -> Iterator[str]:
    made: requests.PodSandbox = done.answer
    if made.sandbox_id in state.ready_sandboxes:
        return  # Temporal and the node both learn it if an outage begins meanwhile
    state.ready_sandboxes.add(made.sandbox_id)
    how = "found" if made.adopted else f"ready in {seconds(done.took)}"
    addresses = f", {', '.join(made.ips)}" if made.ips else ""
    yield f"sandbox attempt {made.attempt} {how}{addresses}"
    yield from made.notices


def _image(_: StoryState, done: CompletedActivity) -> Iterator[str]:
    pulled: requests.PulledImage = done.answer
    if pulled.present:
        yield f"image {done.asked.image} present ({seconds(done.took)})"
    else:
        size = f", {pulled.size_bytes / 1_000_000:.1f} MB" if pulled.size_bytes else ""
        waiting = f" ({seconds(pulled.waited)} of it waiting)" if pulled.waited >= WAIT_REPORTED else ""
        yield f"image {done.asked.image} pulled in {seconds(done.took)}{waiting}{size}"
    yield from pulled.warnings


def _runtime_read(state: StoryState, done: CompletedActivity) -> Iterator[str]:
    seen: requests.PodRuntime = done.answer
    lost = [one for one in seen.sandboxes if not one.ready and one.sandbox_id in state.ready_sandboxes]
    for one in lost:
        state.ready_sandboxes.discard(one.sandbox_id)
        yield f"sandbox attempt {one.attempt} is no longer ready"
    yield from container_sentences.found(state, seen.containers, done.at)
    yield from container_sentences.ends(state, seen.containers)


def _sandbox_stopped(state: StoryState, done: CompletedActivity) -> Iterator[str]:
    state.ready_sandboxes.discard(done.asked.sandbox_id)
    yield f"sandbox stopped ({seconds(done.took)})"


def _images_read(_: StoryState, done: CompletedActivity) -> Iterator[str]:
    for image in done.answer.image_refs:
        yield f"image {image} present"


def _plain(what: Callable[[Any], str]) -> Callable[[StoryState, CompletedActivity], Iterator[str]]:
    """Report the action and its duration, for activities without a response."""

    def say(_: StoryState, done: CompletedActivity) -> Iterator[str]:
        yield f"{what(done.asked)} ({seconds(done.took)})"

    return say


def _predecessor_gone(_: StoryState, done: CompletedActivity) -> Iterator[str]:
    yield f"no other pod of this name is left, after {seconds(done.took)}"


_SUMMARIES: Final[dict[str, ActivityRow]] = {
    row.name: ActivityRow(asked, row.result, row.summary, _plain(row.summary)) for asked, row in ACTIONS.items()
}
"""For an activity without a row of its own: its summary."""
ACTIVITIES: Final[Mapping[str, ActivityRow]] = _SUMMARIES | {
    names.MAKE_POD_DIRECTORIES: ActivityRow(
        requests.MakePodDirectories, None, lambda _: "creating directories", _plain(lambda _: "directories created")
    ),
    names.REMOVE_POD_DIRECTORIES: ActivityRow(
        requests.RemovePodDirectories,
        None,
        lambda _: "removing directories",
        _plain(lambda _: "directories, logs and cgroup removed"),
    ),
    names.DELETE_POD_OBJECT: ActivityRow(
        requests.DeletePodObject,
        None,
        lambda _: "deleting its object in the API",
        _plain(lambda asked: f"gone from the API, {asked.status.get('phase', '')}"),
    ),
    names.AWAIT_PREDECESSOR: ActivityRow(
        requests.AwaitPredecessor, None, lambda _: "waiting for the predecessor", _predecessor_gone
    ),
    names.RUN_POD_SANDBOX: ActivityRow(
        requests.RunPodSandbox, requests.PodSandbox, lambda asked: f"sandbox attempt {asked.attempt}", _sandbox_ready
    ),
    names.STOP_POD_SANDBOX: ActivityRow(
        requests.StopPodSandbox,
        None,
        lambda asked: f"stopping sandbox {asked.sandbox_id[:_IDENTITY]}",
        _sandbox_stopped,
    ),
    names.REMOVE_POD_SANDBOX: ActivityRow(
        requests.RemovePodSandbox,
        None,
        lambda asked: f"removing sandbox {asked.sandbox_id[:_IDENTITY]}",
        _plain(lambda _: "sandbox removed"),
    ),
    names.READ_IMAGES: ActivityRow(
        requests.ReadImages,
        requests.ImagesPresent,
        lambda asked: f"looking for {', '.join(asked.images)}",
        _images_read,
    ),
    names.MOUNT_VOLUMES: ActivityRow(
        volumes.MountVolumes, volumes.MountedVolumes, volume_sentences.mounting, volume_sentences.mounted
    ),
    names.UNMOUNT_VOLUMES: ActivityRow(
        volumes.UnmountVolumes, None, volume_sentences.unmounting, volume_sentences.unmounted
    ),
    names.PREPARE_RESOURCES: ActivityRow(
        claims.PrepareResources,
        claims.PreparedResources | None,
        lambda _: "preparing resource claims",
        resource_sentences.claims_prepared,
    ),
    names.UNPREPARE_RESOURCES: ActivityRow(
        claims.UnprepareResources,
        None,
        lambda _: "unpreparing resource claims",
        resource_sentences.claims_unprepared,
    ),
    names.PULL_IMAGE: ActivityRow(
        requests.PullImage, requests.PulledImage, lambda asked: f"image {asked.image} ({asked.policy})", _image
    ),
    names.START_CONTAINER: ActivityRow(
        requests.StartContainer,
        requests.RuntimeContainer,
        lambda asked: f"starting container {asked.container.get('name', '')}, attempt {asked.attempt}",
        container_sentences.started,
        container_sentences.starts,
    ),
    names.RUN_HOOK: ActivityRow(
        requests.RunHook,
        hooks.HookEnded,
        lambda asked: f"{asked.hook} of {asked.name}",
        container_sentences.hook_ended,
    ),
    names.STOP_CONTAINER: ActivityRow(
        requests.StopContainer,
        requests.RuntimeContainer | None,
        lambda asked: f"stopping container {asked.name}",
        container_sentences.stopped,
    ),
    names.SHORTEN_STOP: ActivityRow(
        requests.ShortenStop,
        requests.RuntimeContainer | None,
        lambda asked: f"shortening the stop of container {asked.name}",
        container_sentences.shortened,
        container_sentences.is_shortened,
    ),
    names.PROBE_CONTAINER: ActivityRow(
        requests.ProbeContainer, None, lambda asked: f"probing container {asked.name}", lambda *_: iter(())
    ),
    names.REMOVE_CONTAINER: ActivityRow(
        requests.RemoveContainer,
        None,
        lambda asked: f"removing dead container {asked.name}",
        container_sentences.removed,
    ),
    names.READ_POD_RUNTIME: ActivityRow(
        requests.ReadPodRuntime, requests.PodRuntime, lambda _: "reading the runtime", _runtime_read
    ),
    names.UPDATE_POD_SANDBOX_RESOURCES: ActivityRow(
        resize.UpdatePodSandboxResources, None, lambda _: "resizing the pod's cgroup", resource_sentences.cgroup_resized
    ),
    names.UPDATE_CONTAINER_RESOURCES: ActivityRow(
        resize.UpdateContainerResources,
        RuntimeResources,
        lambda asked: f"resizing container {asked.name}",
        resource_sentences.container_resized,
    ),
}
