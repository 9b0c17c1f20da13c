"""The numbered behaviours of workflow code; each run follows the one in its input, so an upgrade does not change running pods.

The poller starts a new run with the number that the node is committed to. Only continue-as-new may raise it, to a number that
the signal BehaviourCommitted has named. Workflow code reads `start.behaviour`, never `CURRENT`: two releases that replay one
history have different values of `CURRENT`.

A change of what workflow code does takes the next number, a row here and recorded histories. A number is removed with its row,
its branches and its histories once the previous release could commit a node to a higher one (CONTRIBUTING.md).
"""

from collections.abc import Mapping
from typing import Final

BEHAVIOURS: Final[dict[int, str]] = {
    1: "the first: sandbox, images, init containers, containers, backoff, deletion",
    2: "the sandbox's activity makes the directories, and images are looked for before any is pulled: two activities fewer per start",
    3: "one timer per wait, cancelled only when its time or reason changes; before, one timer for the nearest wait, restarted at every arrival",
    4: "robust against hostile peers: dropped signals count for continue-as-new, an activity's answer names it and its type, "
    "hooks of ours on a pod of the API stay as the node took them, a run has some 500 events, so that it is replayed in time, "
    "continue-as-new carries what is under way and waits for nothing, and a pod that starts again under its UID counts its restarts on",
    5: "two things as with a kubelet: a restart of the machine ends every back-off, and a pod of the API that its node evicts and whose "
    "containers all exit with 0 has succeeded",
    6: "as with a kubelet, volumes that no container uses are not mounted",
    7: "as with a kubelet, a resize is about what runs: the pod's cgroup is lowered after a start that may still get more, and a "
    "sandbox that a failed try has made is resized, too; the runtime is re-read after a start that failed, which may have created its container",
}
OLDEST: Final = min(BEHAVIOURS)
"""A run with a lower number needs an older release: the worker logs an error and leaves its pod alone."""
CURRENT: Final = max(BEHAVIOURS)

NODE_BEHAVIOURS: Final[dict[int, str]] = {
    1: "the first: images are watched, removed and prepulled",
    2: "one timer per wait, as with behaviour 3 of pods",
    3: "robust against hostile peers, as with behaviour 4 of pods: dropped signals, answers, and no wait for a prepull",
    4: "the ledger of exclusive hardware: the Update Admit gives a pod its CPUs, memory and devices by the activity AllocateHardware",
}
"""The behaviours of NodeWorkflow, numbered independently."""
OLDEST_NODE: Final = min(NODE_BEHAVIOURS)
CURRENT_NODE: Final = max(NODE_BEHAVIOURS)

KNOWN: Final[Mapping[str, Mapping[int, str]]] = {"pods": BEHAVIOURS, "node": NODE_BEHAVIOURS}
"""The numbers of each kind of workflow."""

FEWER_START_ACTIVITIES: Final = 2
"""From this behaviour on there is no activity for directories, and none for an image that is present."""
TIMER_PER_WAIT: Final = 3
"""From this behaviour on each wait of a pod has its own timer."""
HOOKS_AS_FIRST_TAKEN: Final = 4
"""From this behaviour on an edit in the API adds and changes no hook of ours, and none with an image runs."""
RESTARTS_COUNT_ON: Final = 4
"""From this behaviour on a pod that its source lists again while it stops keeps its restart counts."""
NODE_TIMER_PER_WAIT: Final = 2
"""The same for the node's workflow."""
SHORT_RUNS: Final = 4
"""From this behaviour on a run continues as new at EVENTS_PER_RUN; before, when Temporal suggested it, at 4,096 events."""

DROPPED_SIGNALS_COUNT: Final = 4
"""From this behaviour on a dropped signal counts towards continue-as-new, and wakes the loop."""
NODE_DROPPED_SIGNALS_COUNT: Final = 3
"""The same for the node's workflow."""
ANSWERS_ENCRYPTED: Final = 4
"""From this behaviour on an activity's answer that is not encrypted for it, with the name of its type, is refused, an empty one, too; so
is a cancellation that the workflow has not asked for."""
NODE_ANSWERS_ENCRYPTED: Final = 3
"""The same for the node's workflow."""

REBOOT_ENDS_BACKOFFS: Final = 5
"""From this behaviour on no container and no image waits any longer once the machine was restarted."""
EVICTED_MAY_SUCCEED: Final = 5
"""From this behaviour on an evicted pod of the API has succeeded if all its containers exit with 0."""

USED_VOLUMES_ONLY: Final = 6
"""From this behaviour on only volumes that a container uses are mounted; before, a pod waited for the others, too."""

RESIZES_WHAT_RUNS: Final = 7
"""From this behaviour on the pod's cgroup is not lowered during a start with more, and a resize that comes after a failed try to run the
sandbox is carried out if that try had made the sandbox."""
LOOKS_FOR_STARTS: Final = 7
"""From this behaviour on the runtime is re-read after a start that failed, which may have created the container all the same."""

CARRIED_ACTIONS: Final = 4
"""From this behaviour on continue-as-new carries the actions under way; before, it waited for their ends."""
NODE_CARRIED_PREPULL: Final = 3
"""The next run of the node's workflow begins a prepull again that is under way."""
NODE_GIVES_HARDWARE: Final = 4
"""From this behaviour on the node's workflow takes the Update Admit."""


class UnknownBehaviourError(Exception):
    """This release does not know the run's behaviour: the workflow task fails and is retried until a worker knows it."""


def why_unknown(behaviour: int, known: Mapping[int, str]) -> str:
    """Say why this release can neither replay nor lead a run of this behaviour; empty if it can."""
    if behaviour in known:
        return ""
    needed = "the newer release" if behaviour > max(known) else "an older release, which raises it"
    return (
        f"it follows behaviour {behaviour}, this release knows {min(known)} to {max(known)}: start a worker of {needed}"
    )


def require_known(behaviour: int, known: Mapping[int, str] = BEHAVIOURS) -> None:
    """Raise UnknownBehaviourError for a run that only a newer or an older release can replay."""
    if why := why_unknown(behaviour, known):
        raise UnknownBehaviourError(f"this run cannot go on here: {why}")
