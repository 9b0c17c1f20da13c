"""Are cgroups called as the kubelet calls them, with either driver, and are names read back?"""

import pytest

from activities.files.pod_paths import UnsafeName
from activities.machine.cgroup_names import CgroupDriver, CgroupNames, parent_unit, unit
from proto.kubernetes.resources.qos import QosClass

UID = "1234-abcd-5678-efgh"
SYSTEMD, CGROUPFS = CgroupDriver.SYSTEMD, CgroupDriver.CGROUPFS
GUARANTEED, BURSTABLE, BEST_EFFORT = QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT
CONTAINER = "5a" * 32


@pytest.mark.parametrize(
    ("driver", "root", "qos", "expected"),
    [
        pytest.param(CGROUPFS, "", GUARANTEED, f"/kubepods/pod{UID}", id="cgroupfs-guaranteed-has-no-tier"),
        pytest.param(CGROUPFS, "/", BURSTABLE, f"/kubepods/burstable/pod{UID}", id="cgroupfs-burstable"),
        pytest.param(CGROUPFS, "a/b/", BEST_EFFORT, f"/a/b/kubepods/besteffort/pod{UID}", id="cgroupfs-below-a-root"),
        pytest.param(
            SYSTEMD,
            "",
            GUARANTEED,
            "/kubepods.slice/kubepods-pod1234_abcd_5678_efgh.slice",
            id="systemd-guaranteed-has-no-tier",
        ),
        pytest.param(
            SYSTEMD,
            "/",
            BURSTABLE,
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_abcd_5678_efgh.slice",
            id="systemd-burstable-names-all-parents",
        ),
        pytest.param(
            SYSTEMD,
            "/of-node/1",
            BEST_EFFORT,
            "/of_node.slice/of_node-1.slice/of_node-1-kubepods.slice/of_node-1-kubepods-besteffort.slice/"
            "of_node-1-kubepods-besteffort-pod1234_abcd_5678_efgh.slice",
            id="systemd-below-a-root-with-a-dash",
        ),
    ],
)
def test_pod(driver: CgroupDriver, root: str, qos: QosClass, expected: str) -> None:
    """The path of a pod's cgroup, and its uid read back from the folder's name."""
    names = CgroupNames.below(root, driver)
    assert names.pod(UID, qos) == expected
    assert names.pod_uid(expected.rpartition("/")[2], qos) == UID
    assert expected.startswith(names.tier(qos) + "/")
    assert names.tier(qos).startswith(names.path())


@pytest.mark.parametrize(
    ("folder", "qos"),
    [
        pytest.param("kubepods-burstable.slice", GUARANTEED, id="a-tier"),
        pytest.param("kubepods-burstable-podx.slice", GUARANTEED, id="a-pod-of-another-tier"),
        pytest.param("kubepods-podx.slice", BURSTABLE, id="a-pod-above"),
        pytest.param("kubepods-podx.service", GUARANTEED, id="a-service"),
        pytest.param("podx", GUARANTEED, id="a-folder-of-the-other-driver"),
    ],
)
def test_what_is_no_pod(folder: str, qos: QosClass) -> None:
    """A tier's other folders are no pods."""
    assert CgroupNames.below("", SYSTEMD).pod_uid(folder, qos) == ""


@pytest.mark.parametrize(
    ("driver", "folder", "expected"),
    [
        pytest.param(CGROUPFS, CONTAINER, CONTAINER, id="cgroupfs"),
        pytest.param(SYSTEMD, f"cri-containerd-{CONTAINER}.scope", CONTAINER, id="containerd"),
        pytest.param(SYSTEMD, f"crio-{CONTAINER}.scope", CONTAINER, id="cri-o"),
        pytest.param(SYSTEMD, f"crio-conmon-{CONTAINER}.scope", "", id="cri-o-monitor-is-no-container"),
        pytest.param(SYSTEMD, CONTAINER, "", id="a-folder-is-no-scope"),
        pytest.param(SYSTEMD, "cri-containerd-.scope", "", id="no-id"),
    ],
)
def test_container(driver: CgroupDriver, folder: str, expected: str) -> None:
    """The container of a pod's child."""
    assert CgroupNames.below("", driver).container_id(folder) == expected


@pytest.mark.parametrize(
    ("root", "why"),
    [
        pytest.param("/a/../..", "leads upward", id="upward"),
        pytest.param("/a b", "cgroupRoot '/a b': 'a b' is no part", id="a-space"),
        pytest.param("/a@b", "'a@b' is no part", id="a-template"),
        pytest.param("/" + "a" * 250, "more than 255 characters", id="too-long"),
    ],
)
def test_refused_roots(root: str, why: str) -> None:
    """A root that systemd could not take is refused by name."""
    with pytest.raises(ValueError, match=why):
        CgroupNames.below(root, SYSTEMD)


@pytest.mark.parametrize(
    ("uid", "error"),
    [
        pytest.param("../../init", UnsafeName, id="a-path"),
        pytest.param("a_b", ValueError, id="an-underscore-is-another-pods-dash"),
        pytest.param("a b", UnsafeName, id="a-space"),
        pytest.param("x@y", UnsafeName, id="an-instance"),
        pytest.param("u" * 240, ValueError, id="too-long"),
    ],
)
def test_refused_uids(uid: str, error: type[Exception]) -> None:
    """A pod's uid from a manifest cannot name another unit."""
    with pytest.raises(error):
        CgroupNames.below("", SYSTEMD).pod(uid, BURSTABLE)


def test_units() -> None:
    """The last part of a path is the unit; the parent of a top slice is the machine's."""
    path = "/kubepods.slice/kubepods-burstable.slice"
    assert (unit(path), parent_unit(path)) == ("kubepods-burstable.slice", "kubepods.slice")
    assert parent_unit("/kubepods.slice") == "-.slice"
