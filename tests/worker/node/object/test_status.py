"""Is the Node's status the kubelet's, and are the fields of others kept?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from proto.kubernetes.resources.quantity import parse_quantity
from proto.node_devices import DeviceCount
from worker.machine.machine import Machine
from worker.node.object.conditions import NodeEvent, conditions
from worker.node.object.status import NodeFacts, NodeSettings, current_node
from worker.node.runtime.state import Handler, RuntimeState
from worker.telemetry.workflow_engine import WorkflowEngine

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
MACHINE = Machine(
    machine_id="m", system_uuid="u", boot_id="b", kernel_version="6.1", os_image="Debian", cpu_milli=2000,
    memory_bytes=8 * 1024**3, huge_pages={2 * 1024**2: 1024**3, 1024**3: 0},
)  # fmt: skip
RUNTIME = RuntimeState(
    last_ready=NOW,
    network_trouble="",
    handlers=(Handler(""), Handler("kata", user_namespaces=True)),
    supplemental_groups=True,
    version="containerd://2.1",
    images=({"names": ["a"], "sizeBytes": 1},),
)
FACTS = NodeFacts(machine=MACHINE, runtime=RUNTIME, addresses=("10.0.0.1",), storage_bytes=100 * 10**9)
SETTINGS = NodeSettings(name="n1", kubelet_version="v1.36.3+tempolet.0", max_pods=110, port=10250)
EMPTY: dict[str, Any] = {"metadata": {"name": "n1"}}


def status(node: dict[str, Any] | None = None, **facts: Any) -> Any:
    """Return the status as of NOW."""
    return current_node(node or EMPTY, SETTINGS, replace(FACTS, **facts), NOW)[0]["status"]


def test_sizes_are_written_as_the_api_server_shows_them() -> None:
    """Binary units for memory and storage, whole CPUs, huge pages by size."""
    assert status()["capacity"] == {
        "cpu": "2",
        "memory": "8Gi",
        "pods": "110",
        "ephemeral-storage": "97656250Ki",
        "hugepages-2Mi": "1Gi",
        "hugepages-1Gi": "0",
    }


def test_what_is_kept_back_comes_off_and_huge_pages_come_off_memory() -> None:
    """Never below zero."""
    kept = {"cpu": parse_quantity("500m"), "memory": parse_quantity("1Gi"), "ephemeral-storage": parse_quantity("1P")}
    assert status(reserved=kept)["allocatable"] == {
        "cpu": "1500m",
        "memory": "6Gi",
        "pods": "110",
        "ephemeral-storage": "0",
        "hugepages-2Mi": "1Gi",
        "hugepages-1Gi": "0",
    }


def test_devices_of_plugins() -> None:
    """All of them are its capacity, and healthy ones can be given; a resource whose plugin is gone stays with zero."""
    known = {"status": {"capacity": {"example.com/gone": "2", "example.com/other": "3"}}, **EMPTY}
    devices = {"example.com/gpu": DeviceCount(4, 3), "example.com/gone": DeviceCount(gone=True)}
    told = status(known, devices=devices)
    assert {name: told["capacity"][name] for name in (*devices, "example.com/other")} == {
        "example.com/gpu": "4",
        "example.com/gone": "0",
        "example.com/other": "3",
    }
    assert {name: told["allocatable"][name] for name in devices} == {"example.com/gpu": "3", "example.com/gone": "0"}


@pytest.mark.parametrize(
    ("machine_id", "left"),
    [
        pytest.param("m", "8", id="the-same-machine"),
        pytest.param("", "8", id="not-known"),
        pytest.param("another", "0", id="the-node-was-installed-anew"),
    ],
)
def test_devices_of_another_machine(machine_id: str, left: str) -> None:
    """Nobody is sent here for them until a plugin has registered; one that has is believed."""
    had = {"cpu": "4", "example.com/gpu": "8", "example.com/nic": "2"}
    known = {"status": {"capacity": had, "nodeInfo": {"machineID": machine_id}}, **EMPTY}
    told = status(known, devices={"example.com/nic": DeviceCount(2, 1)})
    for kind, of_plugin in (("capacity", "2"), ("allocatable", "1")):
        assert (told[kind]["cpu"], told[kind]["example.com/gpu"]) == ("2", left)
        assert told[kind]["example.com/nic"] == of_plugin


def test_what_others_wrote_stays_and_gone_huge_pages_go() -> None:
    """Extended resources, volumesAttached, another condition, labels, annotations."""
    before = {
        "metadata": {"name": "n1", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "status": {
            "capacity": {"example.com/gpu": "2", "hugepages-16Gi": "32Gi"},
            "volumesAttached": [{"name": "v"}],
            "conditions": [{"type": "KernelDeadlock", "status": "False"}],
        },
    }
    found, _ = current_node(before, SETTINGS, FACTS, NOW)
    assert found["metadata"]["labels"] == {"a": "b", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    assert found["metadata"]["annotations"] == {"c": "d"}
    assert (found["status"]["capacity"]["example.com/gpu"], found["status"]["allocatable"]["example.com/gpu"]) == (
        "2",
        "2",
    )
    assert "hugepages-16Gi" not in found["status"]["capacity"]
    assert found["status"]["volumesAttached"] == [{"name": "v"}]
    assert found["status"]["conditions"][0] == {"type": "KernelDeadlock", "status": "False"}


@pytest.mark.parametrize(
    ("settings", "known", "found", "addresses", "annotation"),
    [
        pytest.param({}, [], ("1.1.1.1",), ["1.1.1.1", "n1"], None, id="found"),
        pytest.param({}, [], ("1.1.1.1", "f::1"), ["1.1.1.1", "f::1", "n1"], None, id="two-families"),
        pytest.param({}, ["9.9.9.9"], ("1.1.1.1",), ["1.1.1.1", "n1"], None, id="another-than-before"),
        pytest.param({}, ["9.9.9.9"], (), ["9.9.9.9"], None, id="not-found-the-known-ones-stay"),
        pytest.param({"external_cloud": True}, [], ("1.1.1.1",), ["n1"], None, id="the-cloud-will-say"),
        pytest.param({"external_cloud": True}, ["9.9.9.9"], ("1.1.1.1",), ["9.9.9.9"], None, id="the-cloud-has-said"),
        pytest.param(
            {"external_cloud": True, "given_addresses": ("1.1.1.1",)},
            [], ("1.1.1.1",), ["1.1.1.1", "n1"], "1.1.1.1", id="given-until-the-cloud-says",
        ),
        pytest.param(
            {"external_cloud": True, "given_addresses": ("1.1.1.1", "f::1")},
            ["9.9.9.9"], ("1.1.1.1", "f::1"), ["9.9.9.9"], "1.1.1.1,f::1", id="the-cloud-is-told-what-was-given",
        ),
        pytest.param(
            {"external_cloud": True, "given_addresses": ("::",)}, [], ("f::1",), ["f::1", "n1"], None, id="any-is-none"
        ),
    ],
)  # fmt: skip
def test_addresses(
    settings: dict[str, Any], known: list[str], found: tuple[str, ...], addresses: list[str], annotation: str | None
) -> None:
    """By --node-ip and the cloud provider setting; an outdated annotation is removed."""
    before = {
        "metadata": {"name": "n1", "annotations": {"alpha.kubernetes.io/provided-node-ip": "old"}},
        "status": {"addresses": [{"type": "InternalIP", "address": one} for one in known]},
    }
    now, _ = current_node(before, replace(SETTINGS, **settings), replace(FACTS, addresses=found), NOW)
    assert [one["address"] for one in now["status"]["addresses"]] == addresses
    assert now["metadata"]["annotations"].get("alpha.kubernetes.io/provided-node-ip") == annotation


def test_a_runtime_that_was_not_heard_yet_takes_nothing_away() -> None:
    """After a restart of this process the previous values are kept."""
    known = status()
    again = status({"metadata": {"name": "n1"}, "status": known}, runtime=RuntimeState())
    for key in ("images", "runtimeHandlers", "features"):
        assert again[key] == known[key]
    assert again["nodeInfo"]["containerRuntimeVersion"] == "containerd://2.1"
    assert [one["name"] for one in known["runtimeHandlers"]] == ["", "kata"]
    assert known["features"] == {"supplementalGroupsPolicy": True}


def test_a_reboot_is_told() -> None:
    """The boot id differs from the Node's."""
    before = {"metadata": {"name": "n1"}, "status": {"nodeInfo": {"bootID": "older"}}}
    _, events = current_node(before, SETTINGS, FACTS, NOW)
    assert events[0] == NodeEvent("Rebooted", "Node n1 has been rebooted, boot id: b", "Warning")


def test_swap_is_told_where_there_is_some() -> None:
    """In bytes."""
    assert "swap" not in status()["nodeInfo"]
    assert status(machine=replace(MACHINE, swap_bytes=5))["nodeInfo"]["swap"] == {"capacity": 5}


@pytest.mark.parametrize(
    ("troubles", "message"),
    [
        pytest.param((), "kubelet is posting ready status", id="ready"),
        pytest.param(("a",), "a", id="one-trouble"),
        pytest.param(("a", "b", "a"), "[a, b]", id="each-once"),
    ],
)
def test_ready_says_why_not(troubles: tuple[str, ...], message: str) -> None:
    """In Kubernetes' form of an error list."""
    found, _ = conditions((), pressures=(), troubles=troubles, now=NOW)
    assert (found[-1]["type"], found[-1]["status"]) == ("Ready", "False" if troubles else "True")
    assert (found[-1]["reason"], found[-1]["message"]) == ("KubeletNotReady" if troubles else "KubeletReady", message)


@pytest.mark.parametrize(
    ("limited", "over", "shown"),
    [
        pytest.param(False, False, None, id="no-limit-no-condition"),
        pytest.param(True, False, ("False", "HistoryWithinLimit"), id="within-its-limit"),
        pytest.param(True, True, ("True", "HistoryOverLimit"), id="over-its-limit"),
    ],
)
def test_the_database_of_histories_has_a_condition(limited: bool, over: bool, shown: tuple[str, str] | None) -> None:
    """Only where it has a limit; it keeps the node Ready."""
    pressures = ("HistoryPressure",) if over else ()
    found, events = conditions((), pressures=pressures, troubles=(), now=NOW, history_limited=limited)
    known = {one["type"]: (one["status"], one["reason"]) for one in found}
    assert known.get("HistoryPressure") == shown
    assert known["Ready"] == ("True", "KubeletReady")
    assert ("NodeHasHistoryPressure" in [one.reason for one in events]) is over


def test_a_condition_keeps_the_time_since_when_it_holds() -> None:
    """The heartbeat time changes; a change has one event."""
    before, events = conditions((), pressures=("DiskPressure",), troubles=(), now=NOW)
    assert [one.reason for one in events] == [
        "NodeHasSufficientMemory",
        "NodeHasDiskPressure",
        "NodeHasSufficientPID",
        "NodeReady",
    ]
    same, events = conditions(before, pressures=("DiskPressure",), troubles=(), now=LATER)
    assert events == []
    assert {one["lastTransitionTime"] for one in same} == {"2026-11-22T12:00:00Z"}
    assert {one["lastHeartbeatTime"] for one in same} == {"2026-11-22T12:01:00Z"}
    other, events = conditions(same, pressures=(), troubles=("x",), now=LATER)
    assert [one.reason for one in events] == ["NodeHasNoDiskPressure", "NodeNotReady"]
    turned = {one["type"] for one in other if one["lastTransitionTime"] == "2026-11-22T12:01:00Z"}
    assert turned == {"DiskPressure", "Ready"}
    _, events = conditions(other, pressures=(), troubles=(), now=LATER)
    assert [one.reason for one in events] == ["NodeReady"]


def test_failing_loops_are_a_condition_of_our_own() -> None:
    """Only once there was one; the node stays Ready, and the condition says when all loops run again."""
    assert "TempoletLoopsFailing" not in {one["type"] for one in status()["conditions"]}
    failing = status(failing_loops=("worker: log rotation: OSError: no space left",))
    condition = next(one for one in failing["conditions"] if one["type"] == "TempoletLoopsFailing")
    said = ("True", "LoopsFail", "worker: log rotation: OSError: no space left")
    assert (condition["status"], condition["reason"], condition["message"]) == said
    assert failing["conditions"][-1]["type"] == "Ready"
    assert failing["conditions"][-1]["status"] == "True"
    over = status({**EMPTY, "status": failing})["conditions"]
    assert [(one["status"], one["reason"]) for one in over if one["type"] == "TempoletLoopsFailing"] == [
        ("False", "LoopsRun")
    ]


ENGINES: dict[str, tuple[WorkflowEngine | None, tuple[str, str, str] | None]] = {
    "a worker that tells nothing": (None, None),
    "temporal works": (WorkflowEngine(), ("True", "TemporalAvailable", "Temporal takes what is due")),
    "another machine has the name": (
        WorkflowEngine(NOW, "stop it there", name_taken=True),
        (
            "False",
            "NodeNameTaken",
            f"since {NOW:%Y-%m-%dT%H:%M:%SZ} this machine does nothing about its pods: stop it there",
        ),
    ),
    "one workflow does not work": (
        WorkflowEngine(None, "its last 3 workflow tasks failed", 1),
        ("True", "PodsLedByNode", "this node leads 1 pod itself: its last 3 workflow tasks failed"),
    ),
    "temporal is away": (
        WorkflowEngine(NOW, "the answer of sandbox is due for 5 s", 3),
        (
            "False",
            "TemporalAway",
            "since 2026-11-22T12:00:00Z: the answer of sandbox is due for 5 s; this node leads 3 pods itself",
        ),
    ),
}


@pytest.mark.parametrize(("engine", "said"), ENGINES.values(), ids=ENGINES)
def test_temporal_has_a_condition(engine: WorkflowEngine | None, said: tuple[str, str, str] | None) -> None:
    """It keeps the node Ready."""
    known = {one["type"]: one for one in status(workflow_engine=engine)["conditions"]}
    found = known.get("WorkflowEngineAvailable")
    assert (found and (found["status"], found["reason"], found["message"])) == said
    assert known["Ready"]["status"] == "True"


def test_the_condition_of_temporal_says_since_when() -> None:
    """More pods are led, and the time stays; a worker that is silent makes it Unknown."""
    node = EMPTY
    times = []
    for minute, engine in enumerate(
        [WorkflowEngine(), WorkflowEngine(NOW, "due", 1), WorkflowEngine(NOW, "due", 2), None, WorkflowEngine()]
    ):
        facts = replace(FACTS, workflow_engine=engine)
        node, _ = current_node(node, SETTINGS, facts, NOW + timedelta(minutes=minute))
        (found,) = [one for one in node["status"]["conditions"] if one["type"] == "WorkflowEngineAvailable"]
        times.append((found["status"], found["lastTransitionTime"][14:16]))
    assert times == [("True", "00"), ("False", "01"), ("False", "01"), ("Unknown", "03"), ("True", "04")]
