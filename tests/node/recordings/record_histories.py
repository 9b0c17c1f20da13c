"""Records the lives whose histories tests/replay replays. Run by `make record`, never by `make test`.

Each row runs one pod through one life on a real node and writes its decrypted histories, one file for each run, to
tests/replay/histories/v<behaviour>-<life>[-<run>].json. Record after a new behaviour; never replace the files of an old one:
running pods still follow it. The lives of pods of an API server are in tests/cluster/pods/record_histories.py.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from proto.temporal.names import NAMESPACE, node_workflow_id
from tests.node.recordings import (
    recorded_drivers,
    recorded_inside,
    recorded_node,
    recorded_pods,
    recorded_pulls,
    recorded_raise,
    recorded_wishes,
)
from tests.node.recordings.recording import HISTORIES, NODE, QUICK, place_of, write, write_file
from tests.node.tempolet_node import TempoletNode
from worker.standalone.containerd import Containerd
from worker.standalone.containerd_config import ContainerdPlaces
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.temporal_server import TemporalServer
from worker.temporal.codec import PayloadCipher
from worker.temporal.decoded_history import decode_history
from worker.temporal.keys import KeyFile
from worker.temporal.temporal_client import way_to
from workflows.decide.versions import CURRENT_NODE

NODE_HISTORIES = HISTORIES.with_name("node_histories")

LIVES: dict[str, Callable[[TempoletNode], None]] = {
    "plain": recorded_pods.plain,
    "three-init-containers": recorded_pods.three_init_containers,
    "early-ends": recorded_pods.early_ends,
    "failing-init": recorded_pods.failing_init,
    "crash-loop": recorded_pods.crash_loop,
    "image-not-found": recorded_pods.image_not_found,
    "image-volume": recorded_pods.image_volume,
    "deletion-during-start": recorded_wishes.deletion_during_start,
    "manifest-edit": recorded_wishes.manifest_edit,
    "sandbox-killed": recorded_pods.sandbox_killed,
    "worker-restarted": recorded_pods.worker_restarted,
    "machine-restarted": recorded_pods.machine_restarted,
    "continue-as-new": recorded_pods.continue_as_new,
    "finished": recorded_pods.finished,
    "listed-again": recorded_wishes.listed_again,
    "skipped-backoff": recorded_wishes.skipped_backoff,
    "readiness-gate": recorded_wishes.readiness_gate,
    "ephemeral-container": recorded_wishes.ephemeral_container,
    "resize": recorded_wishes.resize,
    "deadline": recorded_wishes.deadline,
    "evicted": recorded_wishes.evicted,
    "storage-exceeded": recorded_wishes.storage_exceeded,
    "stop-shortened": recorded_wishes.stop_shortened,
    "stop-asked": recorded_wishes.stop_asked,
    "image-changed": recorded_wishes.image_changed,
    "probes": recorded_pods.probes,
    "sidecars": recorded_pods.sidecars,
    "restart-rules": recorded_pods.restart_rules,
    "restart-all": recorded_pods.restart_all,
    "both-hooks": recorded_pods.both_hooks,
    "failing-post-start": recorded_pods.failing_post_start,
    "own-hooks": recorded_pods.own_hooks,
    "pull-secrets": recorded_pulls.pull_secrets,
    "late-object": recorded_inside.late_object,
    "volumes": recorded_inside.volumes,
    "unused-volume": recorded_inside.unused_volume,
    "pod-resources": recorded_inside.pod_resources,
    "refreshed": recorded_inside.refreshed,
    "late-driver": recorded_drivers.late_driver,
    "rejected": recorded_inside.rejected,
}


def test_record_raised(containerd: Containerd, temporal: TemporalServer) -> None:
    """Raise the behaviour of a pod and of its node's workflow: each has a run of the previous and one of the newest number."""
    name = "behaviour-raised"
    asyncio.run(forget_node(temporal))
    with place_of(name) as place:
        recorded_raise.commit_before(place)
        with TempoletNode(place, containerd, temporal, name=NODE, keys={**QUICK, **recorded_raise.OFTEN}) as node:
            recorded_raise.raised(node)
            asyncio.run(write_node(node, name))
            node.remove_all()
            write(node, name)


@pytest.mark.parametrize("name", LIVES)
def test_record(name: str, containerd: Containerd, temporal: TemporalServer) -> None:
    """Run one life to its end, then write every run's history."""
    with place_of(name) as place, TempoletNode(place, containerd, temporal, name=NODE, keys=QUICK) as node:
        LIVES[name](node)
        node.remove_all()
        write(node, name)


def test_record_node(slot: int, node_dir: Path, temporal: TemporalServer, tmp_path: Path) -> None:
    """Run a node's own workflow through a prepull, a failing one, another policy, a removal and a full disk."""
    asyncio.run(forget_node(temporal))
    places = ContainerdPlaces(node_dir / "record", node_dir / "record-run")
    network = PodNetwork(f"tplrec{slot}", f"10.218.{slot}.0/24")
    with Containerd(places, network, cgroup=f"/tempolet-rec-{slot}") as daemon:
        for archive in sorted((daemon.parts_dir / "images").glob("*.tar")):
            daemon.import_image(archive)
        with TempoletNode(tmp_path, daemon, temporal, name=NODE) as node:
            recorded_node.images(node)
            asyncio.run(write_node(node, "images"))


def test_record_hardware(containerd: Containerd, temporal: TemporalServer) -> None:
    """Ask a node's own workflow for the hardware of two pods, one of them twice."""
    with place_of("hardware") as place:
        asyncio.run(forget_node(temporal))
        with TempoletNode(place, containerd, temporal, name=NODE) as node:
            recorded_node.hardware(node)
            asyncio.run(write_node(node, "hardware"))


async def forget_node(temporal: TemporalServer) -> None:
    """Terminate the node's workflow that an earlier life has left; it is encrypted with that life's key."""
    with contextlib.suppress(RPCError):
        client = await Client.connect(**way_to(temporal.address), namespace=NAMESPACE)
        await client.get_workflow_handle(node_workflow_id(NODE)).terminate("the life is recorded")


async def write_node(node: TempoletNode, life: str) -> None:
    """Write every run of this node's own workflow so far; a life that an earlier release has recorded under this number stays."""
    if list(NODE_HISTORIES.glob(f"v{CURRENT_NODE}-{life}*.json")):
        return
    client: Client = await node.client()
    cipher, workflow_id = PayloadCipher(KeyFile(node.temporal_settings().key_file)), node_workflow_id(node.name)
    newest = await client.get_workflow_handle(workflow_id).describe()
    first = newest.raw_description.workflow_execution_info.first_run_id
    runs = list(dict.fromkeys((first, newest.run_id)))
    NODE_HISTORIES.mkdir(exist_ok=True)
    for number, run_id in enumerate(runs, start=1):
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        suffix = f"-{number}" if len(runs) > 1 else ""
        write_file(NODE_HISTORIES / f"v{CURRENT_NODE}-{life}{suffix}.json", decode_history(history, cipher, NAMESPACE))
