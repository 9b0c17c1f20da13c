"""What must hold after a scenario: from the ledger of CRI calls, containerd's view, the files that are left, and the histories."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from temporalio.client import WorkflowExecutionStatus

from proto.temporal.names import NAMESPACE
from tests.chaos.model.lives import restart_counts
from tests.chaos.node.ledger import Call, Ledger
from tests.chaos.node.pods import PRE_STOP, Expected
from tests.chaos.node.scene import Scene
from tests.cluster.cluster_node import NAMESPACE as NAMESPACE_OF_PODS
from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.node.containerd_view import containers_of, sandboxes_of
from tests.node.tempolet_node import TempoletNode
from worker.host.replays.replaying import replay
from worker.standalone.machine import leftovers, links
from worker.temporal.codec import PayloadCipher
from worker.temporal.decoded_history import decode_history
from worker.temporal.keys import KeyFile


def settled_wrong(scene: Scene, pods: Iterable[Expected], *, restarts: bool) -> Iterator[str]:
    """Name what is not yet, or never, as expected of the pods that live: I3 and I5."""
    for expected in pods:
        shot = scene.node.pod(expected.name)
        if shot is None:
            yield f"I5: {expected.name} is unknown"
            continue
        if (shot.phase, shot.ready) != (expected.phase, expected.phase == "Running"):
            yield f"I5: {expected.name} is {shot.phase}, ready {shot.ready}"
        if shot.restarts != expected.restarts and not (restarts and shot.restarts > expected.restarts):
            yield f"I5: {expected.name} was restarted {shot.restarts} times, not {expected.restarts}"
        attempts: dict[str, int] = defaultdict(int)
        for one in containers_of(scene.containerd, shot.uid):
            attempts[one.metadata.name] = max(attempts[one.metadata.name], one.metadata.attempt)
        if dict(attempts) != (told := restart_counts(shot.status)):
            yield f"I3: {expected.name} tells the restart counts {told}, the attempts are {dict(attempts)}"


def ledger_wrong(ledger: Ledger, order: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Check the calls: `order` has the containers of each pod, by its UID."""
    yield from _attempts(ledger)
    yield from _hooks(ledger)
    yield from _order(ledger, order)
    for call in ledger.of("StopContainer"):
        if call.about["timeout"] < 1:
            yield f"I6: {call.about['container']} was stopped without SIGTERM"


def _attempts(ledger: Ledger) -> Iterator[str]:
    made: dict[tuple[str, str], list[int]] = defaultdict(list)
    for call in ledger.all("CreateContainer"):  # one whose caller has died may have taken effect
        made[call.about["uid"], call.about["name"]].append(call.about["attempt"])
    for (uid, name), attempts in made.items():
        if set(attempts) != set(range(len(set(attempts)))):
            yield f"I3: {name} of {uid} was created with the attempts {attempts}"


def _hooks(ledger: Ledger) -> Iterator[str]:
    ran: dict[str, list[Call]] = defaultdict(list)
    for call in ledger.all("ExecSync"):
        if PRE_STOP in call.about["command"]:
            ran[call.about["container"]].append(call)
    for container, calls in ran.items():
        for earlier, later in pairwise(calls):
            if (earlier.ended or later.began) > later.began:
                yield f"I6: the preStop hook of {container} ran twice at once"


def _order(ledger: Ledger, order: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    first: dict[str, list[str]] = defaultdict(list)
    uids: dict[str, str] = {}
    for call in ledger.all("CreateContainer"):  # see above
        sandbox, name = call.about["sandbox"], call.about["name"]
        uids[sandbox] = call.about["uid"]
        if name not in first[sandbox]:
            first[sandbox].append(name)
    for sandbox, names in first.items():
        wanted = order.get(uids[sandbox])
        if wanted and tuple(names) != wanted[: len(names)]:
            yield f"I7: the containers of {uids[sandbox]} were created in the order {names}, not {wanted}"


def left_behind(scene: Scene, uids: Collection[str], *, shims: bool) -> list[str]:
    """Name what is left of pods that are gone: I2. containerd itself may forget the shim of a pod whose processes were killed."""
    node, found = scene.node, []
    calls = scene.proxy.ledger.of("RunPodSandbox", since=scene.calls_before)
    made = {call.made for call in calls if call.about["uid"] in uids}
    forgotten = broken_off_in(scene.proxy.ledger)
    for uid in uids:
        found += [f"sandbox {one}" for one, _ in sandboxes_of(scene.containerd, uid)]
        found += [f"container {one.id}" for one in containers_of(scene.containerd, uid)]
        found += [str(one) for one in (node.root_dir / "pods").glob(uid)]
        found += [str(one) for one in node.logs.glob(f"*{uid}*")]
        found += [f"mount {one}" for one in leftovers.mounts_below(node.root_dir / "pods") if uid in one]
        for top in leftovers.cgroup_directories(scene.containerd.cgroup):
            found += [f"cgroup {one}" for one in leftovers.directories_below(top) if uid in one.name]
    if shims:
        found += [f"shim {pid} of {one}" for pid in scene.shims() for one in made - forgotten if one in _command(pid)]
    for file in (scene.containerd.places.addresses / scene.containerd.network.bridge).glob("[0-9]*"):
        if file.read_text().split()[:1] and file.read_text().split()[0] in made:
            found.append(f"address {file.name}")
    if scene.given_driver:
        volumes = node.root_dir / "plugins/kubernetes.io/csi"
        found += [str(one) for one in volumes.glob(f"{scene.driver.setup.name}/*")]
        found += [f"mount {one}" for one in leftovers.mounts_below(volumes)]
    return found


def broken_off_in(ledger: Ledger) -> set[str]:
    """Name the sandboxes in which a start was broken off with its caller: containerd then never ends their shim."""
    inside = {call.made: call.about["sandbox"] for call in ledger.of("CreateContainer")}
    starts = ledger.all("StartContainer")
    return {inside.get(call.about["container"], "") for call in starts if call.code == "CANCELLED"}


def links_left(scene: Scene) -> list[str]:
    """List the links on the bridge if there are more than sandboxes."""
    ready = [one for one, is_ready in sandboxes_of(scene.containerd, "") if is_ready]
    found = links.links_on_bridge(scene.containerd.network.bridge)
    return [f"link {one}, one of {len(found)} for {len(ready)} pods" for one in found if len(found) > len(ready)]


def api_wrong(node: TempoletNode, pods: Iterable[Expected], *, gone: bool = False) -> Iterator[str]:
    """Name what the API does not show as the node's snapshots do (I5), or shows of pods that are gone (I2); nothing without an API."""
    if not isinstance(node, ClusterNode):
        return
    for expected in pods:
        found, shot = node.api.find(pods_path(NAMESPACE_OF_PODS, expected.name)), node.pod(expected.name)
        if gone or found is None or shot is None:
            if found is not None:
                yield f"I2: {expected.name} is in the API"
            continue
        status = found["status"]
        if (shown := (status["phase"], restart_counts(status))) != (told := (shot.phase, restart_counts(shot.status))):
            yield f"I5: the API shows {expected.name} as {shown}, the node as {told}"


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


async def open_workflows(node: TempoletNode, workflow_ids: Iterable[str]) -> list[str]:
    """Name the workflows that are open: I8."""
    client = await node.client()
    found = []
    for workflow_id in workflow_ids:
        described = await client.get_workflow_handle(workflow_id).describe()
        if described.status is WorkflowExecutionStatus.RUNNING:
            found.append(f"I8: {workflow_id} is open")
    return found


async def histories_wrong(node: TempoletNode, workflow_ids: Iterable[str], folder: Path) -> list[str]:
    """Replay the newest run of each workflow, and write down those that differ: I8."""
    client, cipher, found = await node.client(), PayloadCipher(KeyFile(node.temporal_settings().key_file)), []
    for workflow_id in workflow_ids:
        history = decode_history(await client.get_workflow_handle(workflow_id).fetch_history(), cipher, NAMESPACE)
        verdict = await replay(workflow_id, history)
        if verdict.failure:
            path = folder / f"{workflow_id.replace('/', '-')}.json"
            path.write_text(history.to_json())
            found.append(f"I8: {workflow_id} does not replay ({path}): {verdict.failure}")
    return found
