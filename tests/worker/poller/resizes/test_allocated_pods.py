"""Does the file of what pods were granted read and write as a kubelet's, and survive what may happen to it?"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.pod_snapshot import pod_path
from worker.poller.resizes.allocated_pods import FILE, AllocatedPods, of_checkpoint, to_checkpoint
from workflows.decide.resources.resizes import Allocation

KUBELETS = (
    r'{"data":"{\"entries\":{\"pod1\":{\"ContainerResources\":{\"container1\":{\"requests\":{\"cpu\":\"1Ki\",'
    r'\"memory\":\"1Ki\"}}}}}}","checksum":1178570812}'
)
"""From the kubelet's pkg/kubelet/allocation/state/state_checkpoint_test.go."""
SMALL = {"requests": {"memory": "1Gi", "cpu": "1"}, "limits": {"cpu": "2"}}


def test_a_file_of_the_kubelet_is_read() -> None:
    """With its checksum."""
    requests = {"cpu": "1Ki", "memory": "1Ki"}
    assert of_checkpoint(KUBELETS.encode()) == {"pod1": Allocation({"container1": {"requests": requests}})}


def test_what_is_written_is_what_go_writes() -> None:
    """Limits first, names in order, and a pod without resources of its own has null."""
    data = json.loads(to_checkpoint({"u": Allocation({"b": SMALL, "a": {}})}))["data"]
    web = '{"limits":{"cpu":"2"},"requests":{"cpu":"1","memory":"1Gi"}}'
    assert data == '{"entries":{"u":{"ContainerResources":{"a":{},"b":%s},"PodLevelResources":null}}}' % web  # noqa: UP031 - braces


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "64Mi", "100m"]), min_size=1)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
ALLOCATIONS = st.builds(Allocation, st.dictionaries(st.sampled_from("abc"), RESOURCES), st.none() | RESOURCES)


@given(st.dictionaries(st.uuids().map(str), ALLOCATIONS, max_size=3))
def test_what_is_written_is_read_again(allocations: dict[str, Allocation]) -> None:
    """Whatever the pods have."""
    assert of_checkpoint(to_checkpoint(allocations)) == allocations


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param("[]", id="no-object"),
        pytest.param('{"data": "{}"}', id="without-a-checksum"),
        pytest.param(KUBELETS.replace("memory", "memery"), id="changed"),
        pytest.param('{"data":"[]","checksum":1}', id="a-wrong-checksum"),
    ],
)
def test_a_damaged_file_counts_as_absent_and_is_replaced(tmp_path: Path, content: str) -> None:
    """The pods have what their workflows last showed."""
    (tmp_path / FILE).write_text(content)
    path = pod_path(tmp_path, "u")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"spec": {"containers": [{"name": "web", "resources": SMALL}]}}))
    pods = AllocatedPods(tmp_path)
    assert pods.of("u") == Allocation({"web": SMALL})
    assert pods.of("never-seen") is None
    pods.write()
    assert of_checkpoint((tmp_path / FILE).read_bytes()) == {"u": Allocation({"web": SMALL})}


def test_pods_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    """One by one, or those that went while no poller ran."""
    pods = AllocatedPods(tmp_path)
    for uid in "abc":
        pods.set(uid, Allocation({"web": SMALL}))
    pods.remove("a")
    pods.keep_only({"b"})
    pods.write()
    again = AllocatedPods(tmp_path)
    assert [again.of(uid) for uid in "abc"] == [None, Allocation({"web": SMALL}), None]


def test_an_unchanged_list_is_not_written_again(tmp_path: Path) -> None:
    """Not even by the next poller."""
    pods = AllocatedPods(tmp_path)
    pods.set("a", Allocation({"web": SMALL}))
    pods.write()
    before = (tmp_path / FILE).stat().st_ino
    AllocatedPods(tmp_path).write()
    pods.write()
    assert (tmp_path / FILE).stat().st_ino == before


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    """It is logged, and written with the next change."""
    pods = AllocatedPods(tmp_path / "absent")
    pods.set("a", Allocation({"web": SMALL}))
    pods.write()
    (tmp_path / "absent").mkdir()
    pods.write()
    assert (tmp_path / "absent" / FILE).exists()
