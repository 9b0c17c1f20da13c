"""What the mounting and unmounting of a pod's volumes says in its story. Read by `sentences`."""

from collections.abc import Iterable, Iterator

from proto.temporal.pod import PodJson
from proto.temporal.volumes import MountedVolumes, MountVolumes, UnmountVolumes
from worker.commands.told import Done, Told, seconds


def named(volumes: Iterable[PodJson]) -> str:
    """Name volumes."""
    known = [str(one.get("name", "")) for one in volumes]
    return f"volume{'' if len(known) == 1 else 's'} {', '.join(known)}"


def mounting(asked: MountVolumes) -> str:
    """Name the action for when it fails."""
    return f"mounting {named(asked.volumes)}"


def mounted(_: Told, done: Done) -> Iterator[str]:
    """Tell what was mounted, and what was there."""
    answer: MountedVolumes = done.answer
    there = [one for one in done.asked.volumes if one.get("name") in answer.found]
    made = [one for one in done.asked.volumes if one not in there]
    if made:
        yield f"{named(made)} mounted in {seconds(done.took)}"
    if there:
        yield f"{named(there)} found mounted"


def unmounting(asked: UnmountVolumes) -> str:
    """Name the action for when it fails."""
    return f"unmounting {named(asked.volumes)}"


def unmounted(_: Told, done: Done) -> Iterator[str]:
    """Tell that nothing is mounted any more."""
    yield f"{named(done.asked.volumes)} unmounted ({seconds(done.took)})"
