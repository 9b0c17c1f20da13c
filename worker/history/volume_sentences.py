"""What the mounting and unmounting of a pod's volumes says in its story. Read by `sentences`."""

from collections.abc import Iterable, Iterator

from proto.temporal.pod import PodJson
from proto.temporal.signals import ObjectsChanged, StorageExceeded
from proto.temporal.volumes import MountedVolumes, MountVolumes, UnmountVolumes
from worker.history.story_state import CompletedActivity, StoryState, seconds


def named(volumes: Iterable[PodJson]) -> str:
    """Name volumes."""
    known = [str(one.get("name", "")) for one in volumes]
    return f"volume{'' if len(known) == 1 else 's'} {', '.join(known)}"


def mounting(asked: MountVolumes) -> str:
    """Name the action for when it fails."""
    return f"{'mounting' if asked.refresh is None else 'refreshing'} {named(asked.volumes)}"


def mounted(_: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Tell what was mounted, and what was there."""
    answer: MountedVolumes = done.answer
    if done.asked.refresh is not None:
        yield from refreshed(done.asked, answer, seconds(done.took))
        return
    there = [one for one in done.asked.volumes if one.get("name") in answer.found]
    made = [one for one in done.asked.volumes if one not in there]
    if made:
        yield f"{named(made)} mounted in {seconds(done.took)}"
    if there:
        yield f"{named(there)} found mounted"


def unmounting(asked: UnmountVolumes) -> str:
    """Name the action for when it fails."""
    return f"unmounting {named(asked.volumes)}"


def unmounted(_: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Tell that nothing is mounted any more."""
    yield f"{named(done.asked.volumes)} unmounted ({seconds(done.took)})"


def refreshed(asked: MountVolumes, answer: MountedVolumes, took: str) -> Iterator[str]:
    """Tell which volumes follow, and what; one whose files are the same follows nothing."""
    same = [one for one in asked.volumes if one.get("name") in answer.found]
    changed = [one for one in asked.volumes if one not in same]
    followed = ", ".join(called(name) for name in sorted(asked.refresh or {})) or "the pod's own edit"
    if changed:
        yield f"{named(changed)} refreshed in {took}: {followed}"
    if same:
        yield f"{named(same)} had these files already: {followed}"


def changed(_: StoryState, signal: ObjectsChanged) -> Iterator[str]:
    """Tell which objects changed."""
    there = sorted(called(name) for name, version in signal.versions.items() if version)
    gone = sorted(called(name) for name, version in signal.versions.items() if not version)
    if there:
        yield f"{', '.join(there)} changed"
    if gone:
        yield f"{', '.join(gone)} removed"


def called(name: str) -> str:
    """Call an object by its kind and name: `configmap web`."""
    plural, _, one = name.partition("/")
    return f"{plural.removesuffix('s')} {one}"


def exceeded(_: StoryState, signal: StorageExceeded) -> Iterator[str]:
    """Tell what holds too much; why the pod ends then is state with its containers' stops."""
    if signal.empty_dir:
        yield f"volume {signal.empty_dir} holds more than its sizeLimit: {signal.used_bytes} bytes"
    else:
        who = f"container {signal.container}" if signal.container else "the pod"
        yield f"{who} holds more on disk than its limit of ephemeral-storage: {signal.used_bytes} bytes"
