"""Sentences about mounting, refreshing and unmounting a pod's volumes."""

from collections.abc import Iterable, Iterator

from proto.temporal.activities.volumes import MountedVolumes, MountVolumes, UnmountVolumes
from proto.temporal.pod import PodJson
from proto.temporal.signals import ObjectsChanged, StorageExceeded
from worker.history.sentences.story_state import CompletedActivity, StoryState, seconds


def named(volumes: Iterable[PodJson]) -> str:
    """List volumes by name."""
    known = [str(one.get("name", "")) for one in volumes]
    return f"volume{'' if len(known) == 1 else 's'} {', '.join(known)}"


def mounting(asked: MountVolumes) -> str:
    """Name the activity for when it fails."""
    return f"{'mounting' if asked.refresh is None else 'refreshing'} {named(asked.volumes)}"


def mounted(_: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Report which volumes were mounted, and which already were."""
    answer: MountedVolumes = done.answer
    if done.asked.refresh is not None:
        yield from refreshed(done.asked, answer, seconds(done.took))
        return
    there = [one for one in done.asked.volumes if one.get("name") in answer.found]
    made = [one for one in done.asked.volumes if one not in there]
    if made:
        yield f"{named(made)} mounted in {seconds(done.took)}"
    if there:
        yield f"{named(there)} already mounted"


def unmounting(asked: UnmountVolumes) -> str:
    """Name the activity for when it fails."""
    return f"unmounting {named(asked.volumes)}"


def unmounted(state: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Report that the volumes are unmounted, if they can have been mounted."""
    if not state.never_was_here:
        yield f"{named(done.asked.volumes)} unmounted ({seconds(done.took)})"


def refreshed(asked: MountVolumes, answer: MountedVolumes, took: str) -> Iterator[str]:
    """Report which volumes were refreshed, and for which objects."""
    same = [one for one in asked.volumes if one.get("name") in answer.found]
    changed = [one for one in asked.volumes if one not in same]
    followed = ", ".join(called(name) for name in sorted(asked.refresh or {})) or "the pod's own edit"
    if changed:
        yield f"{named(changed)} refreshed in {took}: {followed}"
    if same:
        yield f"{named(same)} unchanged: {followed}"


def changed(_: StoryState, signal: ObjectsChanged) -> Iterator[str]:
    """Report which objects changed."""
    there = sorted(called(name) for name, version in signal.versions.items() if version)
    gone = sorted(called(name) for name, version in signal.versions.items() if not version)
    if there:
        yield f"{', '.join(there)} changed"
    if gone:
        yield f"{', '.join(gone)} removed"


def called(name: str) -> str:
    """Format an object as kind and name: `configmap web`."""
    plural, _, one = name.partition("/")
    return f"{plural.removesuffix('s')} {one}"


def exceeded(_: StoryState, signal: StorageExceeded) -> Iterator[str]:
    """Report which limit is exceeded; the stops of its containers then give this as their reason."""
    if signal.empty_dir:
        yield f"volume {signal.empty_dir} exceeds its sizeLimit: {signal.used_bytes} bytes"
    else:
        who = f"container {signal.container}" if signal.container else "the pod"
        yield f"{who} exceeds its ephemeral-storage limit: {signal.used_bytes} bytes"
