"""Are bridges and cgroups only taken by whom they belong to?"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker.standalone.machine import leftovers, links, owner_marks
from worker.standalone.machine.owner_marks import BridgeMark, TakenByAnother

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network devices and trusted attributes")
SUBNET = "10.223.0.0/24"


@pytest.fixture
def bridge() -> Iterator[str]:
    """Return the name of a device that is removed afterwards."""
    name = f"tplmark{os.getpid() % 10**7}"
    yield name
    links.delete_link(name)


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a cgroup of a tree that stands in for cgroup v2."""
    (tmp_path / "cgroup.controllers").touch()
    monkeypatch.setattr(leftovers, "CGROUP_MOUNT", tmp_path)
    return "/pods"


def test_a_new_bridge_is_marked_and_can_be_claimed_again(bridge: str) -> None:
    """By its own node, after a crash."""
    for _ in range(2):
        owner_marks.claim_bridge(bridge, "/run/a", SUBNET)
    assert owner_marks.bridge_mark(bridge) == BridgeMark("/run/a", SUBNET)
    assert owner_marks.bridge_mark("tplnosuchlink") is None


def test_a_dead_nodes_bridge_is_taken_over(bridge: str) -> None:
    """Nothing of it runs, and no pod is attached."""
    owner_marks.claim_bridge(bridge, "/run/nobody", SUBNET)
    owner_marks.claim_bridge(bridge, "/run/b", SUBNET)
    assert owner_marks.bridge_mark(bridge) == BridgeMark("/run/b", SUBNET)


@pytest.mark.parametrize(
    ("name", "subnet", "flag"),
    [
        pytest.param("", SUBNET, "--bridge", id="its-bridge"),
        pytest.param("tplother", "10.223.0.128/25", "--pod-cidr", id="a-part-of-its-subnet"),
    ],
)
def test_what_a_node_with_pods_has_is_refused(bridge: str, name: str, subnet: str, flag: str) -> None:
    """The message says whose it is."""
    owner_marks.claim_bridge(bridge, "/run/nobody", SUBNET)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "links_on_bridge", lambda _: ["veth0"])
        with pytest.raises(TakenByAnother, match=f"belongs to the node at /run/nobody.*{flag}"):
            owner_marks.claim_bridge(name or bridge, "/run/b", subnet)
    assert owner_marks.bridge_mark(bridge) == BridgeMark("/run/nobody", SUBNET)
    assert not (links.LINKS / "tplother").exists()


def test_a_device_without_a_mark_is_refused(bridge: str) -> None:
    """It may be Docker's, or the operator's network."""
    assert links.create_bridge(bridge)
    with pytest.raises(TakenByAnother, match=f"{bridge} exists that no node has marked"):
        owner_marks.claim_bridge(bridge, "/run/a", SUBNET)


def test_a_cgroup_is_marked_and_taken_over_like_a_bridge(cgroup: str) -> None:
    """Its own node's, and a dead one's."""
    for owner in ("/run/a", "/run/a", "/run/b"):
        owner_marks.claim_cgroup(cgroup, owner)
        assert owner_marks.cgroup_owner(cgroup) == owner


def test_a_cgroup_in_use_is_refused(cgroup: str, tmp_path: Path) -> None:
    """Another node's pods run in it, or something that is no node's."""
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "cgroup.procs").write_text("7\n")
    with pytest.raises(TakenByAnother, match="has processes and no node's mark"):
        owner_marks.claim_cgroup(cgroup, "/run/b")
    owner_marks.mark_cgroup(cgroup, "/run/a")
    with pytest.raises(TakenByAnother, match="cgroup /pods belongs to the node at /run/a"):
        owner_marks.claim_cgroup(cgroup, "/run/b")
    owner_marks.claim_cgroup(cgroup, "/run/a")


def test_the_root_cgroup_is_nobodys(cgroup: str, tmp_path: Path) -> None:
    """A node whose pods are there marks nothing, and removes nothing."""
    owner_marks.claim_cgroup("/", "/run/a")
    assert owner_marks.cgroup_owner("/") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cgroup.controllers"], cgroup


def test_a_state_folder_of_a_living_node_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typo in --run-dir alone: the state folder is the default one, which another node uses."""
    state = tmp_path / "state"
    for owner in ("/run/a", "/run/a", "/run/b"):  # nothing of /run/a runs
        owner_marks.claim_state(state, owner)
    monkeypatch.setattr(leftovers, "shims_of", lambda _: [1])
    owner_marks.claim_state(state, "/run/b")
    with pytest.raises(TakenByAnother, match=f"state folder {state} belongs to the node at /run/b.*--state-dir"):
        owner_marks.claim_state(state, "/run/a")
    owner_marks.refuse_state_of_another(tmp_path / "none", "/run/a")
