"""What may happen to a pod in its life: one function each, drawn by weight; and the course of a whole life."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError

from proto.temporal import names
from proto.temporal.operator import AddEphemeralContainer, EvictPod, SetCondition, SkipBackoff, StopPod
from proto.temporal.pod import ContainerState, ProbeKind
from proto.temporal.pod_inputs import Ended, GivenCondition
from proto.temporal.signals import REBOOT, ObjectsChanged, PodListed, RuntimeChanged, StatusGiven, StorageExceeded
from tests.replay.lives.drawn_edits import edit, resize
from tests.replay.lives.drawn_life import DrawnLife
from tests.replay.lives.drawn_pod import GATE, mount_one

OPERATOR: Final = "root@node-1"
MANY: Final = 2100
"""Number of signals, more than a run receives before it continues as new."""
AT_ONCE: Final = 25
TRIES: Final = 6
"""Attempts to find a container in back-off."""
ANSWER_WITHIN: Final = timedelta(seconds=5)
STRANGE: Final[tuple[tuple[Any, ...], ...]] = ((), ("a", "b"), ({"number": 1},), (17,))


async def lead(life: DrawnLife) -> bool:
    """Run a pod through its life; False if it did not end by itself."""
    rng = life.rng
    life.fake.predecessors = rng.choice([0] * 12 + [1, 2])
    await life.begin(life.seen_before() if rng.random() < 0.6 else None)
    crowded = life.seed % 50 == 7
    count = rng.choice([1, 4, 6, 9, 14, 20])
    if rng.random() < 0.75:
        await life.calm()
    for number in range(count + crowded):
        await life.go_on(rng.choice([0, 1, 1, 2, 4]))
        if crowded and number == count // 2:
            await many_hints(life)
        else:
            (happening,) = rng.choices(list(HAPPENINGS), list(HAPPENINGS.values()))
            await happening(life)
    await life.go_on(rng.choice([0, 1, 5]))
    if rng.random() < 0.2:
        life.fake.fault_rates.settle()
    return await life.end()


# --- seen on the node


async def container_ends(life: DrawnLife) -> None:
    """Let a container exit; the hint may be lost."""
    live = [one.container_id for one in life.fake.model.live()]
    if live and life.fake.end(ended := life.rng.choice(live), life.rng.choice([0, 1, 1, 42, 137])):
        hint = RuntimeChanged("event", exited=(ended,)) if life.rng.random() < 0.8 else RuntimeChanged("resync")
        await life.fake.tell(names.RUNTIME_CHANGED, hint)


async def container_is_unknown(life: DrawnLife) -> None:
    """Let the runtime lose track of a container."""
    if live := life.fake.model.live():
        one = life.rng.choice(live)
        life.fake.model.containers[one.container_id] = replace(one, state=ContainerState.UNKNOWN)
        await life.fake.tell(names.RUNTIME_CHANGED, RuntimeChanged("relist"))


async def container_is_pruned(life: DrawnLife) -> None:
    """Remove a container from the runtime, dead or alive."""
    if life.fake.model.containers:
        del life.fake.model.containers[life.rng.choice(list(life.fake.model.containers))]
        await life.fake.tell(names.RUNTIME_CHANGED, RuntimeChanged("relist"))


async def sandbox_dies(life: DrawnLife) -> None:
    """Let a sandbox die, with or without its containers."""
    if ready := life.fake.model.ready():
        sandbox_id = ready[0].sandbox_id
        if life.rng.random() < 0.5:
            life.fake.model.stop_sandbox(sandbox_id)
        else:
            life.fake.model.lose_sandbox(sandbox_id)
        await life.fake.tell(names.RUNTIME_CHANGED, RuntimeChanged("event", sandbox_lost=True))


async def machine_restarts(life: DrawnLife) -> None:
    """Let every sandbox go with its containers; a hint may come before the one that tells why."""
    for one in life.fake.model.ready():
        life.fake.model.stop_sandbox(one.sandbox_id)
    if life.rng.random() < 0.5:
        await life.fake.tell(names.RUNTIME_CHANGED, RuntimeChanged("relist", sandbox_lost=True))
        await life.go_on(life.rng.choice([0, 1, 3]))
    await life.fake.tell(names.RUNTIME_CHANGED, RuntimeChanged(REBOOT))


async def sandbox_is_removed(life: DrawnLife) -> None:
    """Remove a sandbox with its containers."""
    if life.fake.model.sandboxes:
        life.fake.model.remove_sandbox(life.rng.choice(list(life.fake.model.sandboxes)))
        await life.fake.tell(names.RUNTIME_CHANGED, RuntimeChanged("relist", sandbox_lost=True))


async def resync(life: DrawnLife) -> None:
    """Send the hint of a resync, whether there is a difference or not."""
    await life.fake.tell(names.RUNTIME_CHANGED, RuntimeChanged(life.rng.choice(["resync", "restart", "relist"])))


async def probe_speaks(life: DrawnLife) -> None:
    """Change a probe's verdict; it may arrive late, or for an instance that is gone."""
    if life.fake.probing:
        asked = life.rng.choice(list(life.fake.probing.values()))
        kinds = [kind for kind in ProbeKind if kind.field in asked.container]
        said = life.fake.verdict(asked, life.rng.choice(kinds), success=life.rng.random() < 0.4)
        await life.fake.tell(names.PROBE_VERDICT, said)
        if life.rng.random() < 0.2:
            await life.fake.tell(names.PROBE_VERDICT, said)


async def objects_change(life: DrawnLife) -> None:
    """Edit or delete an object that a volume shows."""
    name = life.rng.choice(["configmaps/app", "configmaps/app", "secrets/key"])
    life.fake.versions[name] = life.fake.versions.get(name, 1) + 1
    version = str(life.fake.versions[name]) if life.rng.random() < 0.9 else ""
    await life.fake.tell(names.OBJECTS_CHANGED, ObjectsChanged("objects", {name: version}))


async def too_much_on_disk(life: DrawnLife) -> None:
    """Let a volume, a container or the pod exceed its storage limit."""
    where: dict[str, Any] = life.rng.choice([{"empty_dir": "data"}, {"container": "main-0"}, {}])
    hint = StorageExceeded("local-storage", used_bytes=life.rng.choice([1, 1 << 21]), **where)
    await life.fake.tell(names.STORAGE_EXCEEDED, hint)


async def many_hints(life: DrawnLife) -> None:
    """Send more signals than one run receives; few of them change anything."""
    said: list[tuple[str, Any]] = [
        (names.RUNTIME_CHANGED, RuntimeChanged("event", exited=("nobody",))),
        (names.POD_LISTED, PodListed(life.source)),
    ]
    for number in range(MANY // AT_ONCE):
        name, hint = said[number % 5 == 4]
        await asyncio.gather(*(life.fake.tell(name, hint) for _ in range(AT_ONCE)))


# --- from the source


async def listed_again(life: DrawnLife) -> None:
    """List the pod again, unchanged."""
    edited = life.listed != life.pod
    said = PodListed(life.source, life.counted(), life.listed if edited else None, in_place=True)
    await life.fake.tell(names.POD_LISTED, said)


async def edited(life: DrawnLife) -> None:
    """List the pod with an edit."""
    life.listed = edit(life.rng, life.listed)
    life.fake.model.ephemeral.update(one["name"] for one in life.listed["spec"].get("ephemeralContainers", ()))
    in_place = life.from_api or life.rng.random() < 0.9
    await life.fake.tell(names.POD_LISTED, PodListed(life.source, life.counted(), life.listed, in_place=in_place))


async def resized(life: DrawnLife) -> None:
    """Resize a running container."""
    await life.calm()
    life.listed = resize(life.rng, life.listed)
    await life.fake.tell(names.POD_LISTED, PodListed(life.source, life.counted(), life.listed, in_place=True))


async def said_late(life: DrawnLife) -> None:
    """Deliver an old version of the pod after a newer one."""
    if life.from_api:
        await life.fake.tell(
            names.POD_LISTED, PodListed(life.source, max(life.sequence - 1, 1), life.pod, in_place=True)
        )


async def status_given(life: DrawnLife) -> None:
    """Write to the pod's status in the API."""
    rng = life.rng
    given = GivenCondition(rng.choice(["True", "False"]), datetime.now(UTC), "ByHand", "")
    ended = Ended(rng.choice(["Succeeded", "Failed"]), "NodeLost", "given up") if rng.random() < 0.15 else None
    if life.from_api:
        conditions = {GATE: given} if rng.random() < 0.8 else {}
        await life.fake.tell(names.STATUS_GIVEN, StatusGiven(life.source, life.counted(), conditions, ended))


async def deleted(life: DrawnLife) -> None:
    """Delete the pod; a manifest may reappear."""
    await life.say_deleted()
    if life.rng.random() < 0.5:
        await asyncio.sleep(life.rng.choice([0, 0.1, 0.5]))
        await listed_again(life)


# --- from an operator


async def asked(life: DrawnLife, name: str, what: Any) -> bool:
    """Send an Update; False if it is refused, or the pod is gone."""
    try:
        await life.handle.execute_update(name, what, rpc_timeout=ANSWER_WITHIN)
    except (WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError, RPCError):
        return False
    return True


async def operator_skips(life: DrawnLife) -> None:
    """Let a container crash until it is in back-off, and skip that."""
    life.fake.fault_rates.ends = 1
    who = life.rng.choice(["", "", "main-0"])
    for _ in range(TRIES):
        live = [one.container_id for one in life.fake.model.live() if one.name.startswith("main")]
        if live and life.fake.end(live[0], 1):
            await life.fake.tell(names.RUNTIME_CHANGED, RuntimeChanged("event", exited=(live[0],)))
        await life.go_on(1)
        if await asked(life, names.SKIP_BACKOFF, SkipBackoff(OPERATOR, who)):
            return


async def operator_sets_condition(life: DrawnLife) -> None:
    """Set a readiness gate to true or false."""
    status = life.rng.choice(["True", "False", "Unknown"])
    await asked(life, names.SET_CONDITION, SetCondition(OPERATOR, GATE, status, "ByHand"))


async def operator_hastens(life: DrawnLife) -> None:
    """Delete the pod and shorten its stop."""
    await life.calm()
    life.fake.ignores_sigterm = True
    await life.say_deleted(timedelta(seconds=30))
    grace = life.rng.choice([None, timedelta(0), timedelta(seconds=1), timedelta(seconds=5)])
    await life.go_on(life.rng.choice([0, 1, 2]))
    await asked(life, names.STOP_POD, StopPod(OPERATOR, grace))


async def operator_evicts(life: DrawnLife) -> None:
    """Evict the pod, often while all its containers run."""
    if life.rng.random() < 0.6:
        await life.calm()
    grace = life.rng.choice([None, timedelta(0), timedelta(seconds=1)])
    await asked(life, names.EVICT_POD, EvictPod(OPERATOR, "Evicted", "The node was low on resource: memory. ", grace))


async def operator_looks_in(life: DrawnLife) -> None:
    """Add an ephemeral container."""
    look = {"name": f"debug-{len(life.fake.model.ephemeral)}", "image": "busybox:1", **mount_one(life.rng, life.pod)}
    if life.rng.random() < 0.5:
        look["targetContainerName"] = "main-0"
    life.fake.model.ephemeral.add(look["name"])
    await asked(life, names.ADD_EPHEMERAL_CONTAINER, AddEphemeralContainer(OPERATOR, look))


async def cancelled(life: DrawnLife) -> None:
    """Cancel the workflow, which is ignored."""
    try:
        await life.handle.cancel()
    except RPCError:
        return


async def history_is_lost(life: DrawnLife) -> None:
    """Let Temporal lose the pod's history."""
    await life.lose_history()


async def fault_rates_change(life: DrawnLife) -> None:
    """Change the chances of failures and exits."""
    life.fake.fault_rates.fails = life.rng.choice([0, 0.2, 0.5])
    life.fake.fault_rates.ends = life.rng.choice([0, 0.3, 1])


async def release_is_committed(life: DrawnLife) -> None:
    """Commit the node to the newer release."""
    await life.commit()


async def stranger_signals(life: DrawnLife) -> None:
    """Send a malformed signal: of an unknown name, without a value, with two, or with one of another type."""
    name = life.rng.choice(["Nonsense", names.RUNTIME_CHANGED, names.PROBE_VERDICT, names.BEHAVIOUR_COMMITTED])
    await life.fake.tell(name, *life.rng.choice(STRANGE))


HAPPENINGS: Final[dict[Callable[[DrawnLife], Awaitable[None]], int]] = {
    container_ends: 18,
    container_is_unknown: 2,
    container_is_pruned: 3,
    sandbox_dies: 5,
    machine_restarts: 4,
    sandbox_is_removed: 2,
    resync: 6,
    probe_speaks: 14,
    objects_change: 5,
    too_much_on_disk: 2,
    listed_again: 4,
    edited: 14,
    resized: 6,
    said_late: 2,
    status_given: 6,
    deleted: 2,
    operator_skips: 7,
    operator_sets_condition: 5,
    operator_hastens: 2,
    operator_evicts: 4,
    operator_looks_in: 5,
    cancelled: 3,
    history_is_lost: 6,
    fault_rates_change: 3,
    release_is_committed: 8,
    stranger_signals: 3,
}
"""The events with their weights."""
