"""When is a volume mounted with the SELinux label of its pod, and which label is that?"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.execution.timings import Timings
from activities.node_services import NodeServices
from activities.volumes.plugin.selinux import (
    AskedLabel,
    LabelFinding,
    LabelledVolume,
    LabelRefused,
    LabelUser,
    asked_label,
    check_label,
    conflict,
    container_labels,
    default_file_label,
    file_label,
    label_option,
    mounts_labelled,
    one_label,
)
from activities.volumes.plugin.volume_type import NotProcessed, PodVolume, VolumeFailed
from proto.temporal.pod import PodKey

DEFAULT = "system_u:object_r:container_file_t:s0"
ALONE, SHARED = ("ReadWriteOncePod",), ("ReadWriteOnce",)
A, B = f"{DEFAULT}:c1,c2", f"{DEFAULT}:c3,c4"


@pytest.mark.parametrize(
    ("labels", "policy", "label"),
    [
        pytest.param([A], "", A, id="one-label"),
        pytest.param([A, A], "", A, id="two-containers-with-one-label"),
        pytest.param([A], "MountOption", A, id="the-pod-asks-for-it"),
        pytest.param([A], "Recursive", "", id="the-pod-does-not-want-it"),
        pytest.param([], "", "", id="no-label"),
    ],
)
def test_the_label_of_a_pod(labels: list[str], policy: str, label: str) -> None:
    """selinux_test.go TestGetMountSELinuxLabel."""
    assert one_label(labels, policy) == label


@pytest.mark.parametrize("policy", ["", "Recursive"])
def test_two_labels_of_one_volume(policy: str) -> None:
    """They are no single one, whoever labels the files, as in the kubelet."""
    with pytest.raises(LabelRefused, match=f"^multiple SELinux labels found: {A},{B}$") as refused:
        one_label([B, A], policy)
    assert refused.value.finding is LabelFinding.POD


@pytest.mark.parametrize(
    "level",
    ['s0",exec,x="', "s0\\", "s0:c1 c2", "s0\n", "s0\x00", "s0\u2028"],
    ids=["quote", "slash", "blank", "line", "nul", "ls"],
)
def test_a_label_that_wants_to_be_more(level: str) -> None:
    """It is the pod's, whose author may not mount as he likes: libmount knows no escaped quote."""
    with pytest.raises(LabelRefused, match=r"^failed to construct SELinux label from context ") as refused:
        one_label([file_label({"level": level}, DEFAULT)], "")
    assert refused.value.finding is LabelFinding.CONTAINER


@given(st.text())
def test_a_label_is_one_mount_option(level: str) -> None:
    """Whatever a pod says: between the quotes of the option is no other one."""
    try:
        label = one_label([file_label({"level": level}, DEFAULT)], "")
    except LabelRefused:
        return
    [option] = label_option(label)
    assert option.removeprefix("context=").strip('"') == label
    assert option.count('"') == 2


@pytest.mark.parametrize(
    ("modes", "every_mode", "mounts"),
    [
        pytest.param(ALONE, False, True, id="one-pod-alone"),
        pytest.param(SHARED, False, False, id="a-volume-that-pods-may-share"),
        pytest.param((*ALONE, *SHARED), False, False, id="several-access-modes"),
        pytest.param((), False, False, id="no-access-mode"),
        pytest.param(SHARED, True, True, id="the-gate"),
        pytest.param(ALONE, True, True, id="the-gate-and-one-pod-alone"),
        pytest.param((), True, True, id="the-gate-and-no-mode"),
    ],
)
def test_the_access_modes_that_are_mounted_with_a_label(modes: tuple[str, ...], every_mode: bool, mounts: bool) -> None:
    """selinux.go VolumeSupportsSELinuxMount."""
    assert mounts_labelled(modes, every_mode=every_mode) is mounts
    assert AskedLabel(A, "RWO", mounts).mounted == (A if mounts else "")


STAYS, LEAVES = LabelUser(B), LabelUser(B, leaving=True)


@pytest.mark.parametrize(
    ("label", "mounts", "users", "found"),
    [
        pytest.param(A, True, [], None, id="nobody-else"),
        pytest.param(A, True, [LabelUser(A), LabelUser(A, leaving=True)], None, id="the-same-label"),
        pytest.param(A, True, [LabelUser(A), STAYS], STAYS, id="another-label"),
        pytest.param("", True, [STAYS], STAYS, id="a-pod-without-a-label"),
        pytest.param(A, True, [LabelUser("")], LabelUser(""), id="beside-a-pod-without-a-label"),
        pytest.param("", True, [LabelUser("")], None, id="no-label-at-all"),
        pytest.param(A, True, [LEAVES], LEAVES, id="of-a-pod-that-leaves"),
        pytest.param(A, True, [LEAVES, STAYS], STAYS, id="one-that-stays-before-one-that-leaves"),
        pytest.param(A, False, [STAYS], STAYS, id="not-mounted-with-it"),
        pytest.param(A, False, [LEAVES], None, id="not-mounted-with-it-and-leaving"),
    ],
)
def test_a_conflict(label: str, mounts: bool, users: list[LabelUser], found: LabelUser | None) -> None:
    """Another pod has the volume with another label (AddPodToVolume, PodExistsInVolume)."""
    assert conflict(AskedLabel(label, "RWO", mounts), users) == found


VOLUME = LabelledVolume("pv1", "kubernetes.io/csi/d^h", "kubernetes.io/csi/d")


@pytest.mark.parametrize(
    ("label", "mounts", "users", "counted", "error"),
    [
        pytest.param(A, True, [], ("volumes_admitted", False), "", id="first"),
        pytest.param(A, False, [], ("volumes_admitted", False), "", id="first-without-the-gate"),
        pytest.param("", True, [], None, "", id="first-without-a-label"),
        pytest.param(A, True, [LabelUser(A)], None, "", id="second"),
        pytest.param(
            A,
            True,
            [STAYS],
            ("volume_context_mismatch", True),
            f'conflicting SELinux labels of volume pv1: "{B}" and "{A}"',
            id="another-label",
        ),
        pytest.param(A, False, [STAYS], ("volume_context_mismatch", False), "", id="a-warning-without-the-gate"),
        pytest.param(
            A,
            True,
            [LEAVES],
            None,
            'waiting for unmount of volume "kubernetes.io/csi/d^h", because it is already mounted to a different pod with a '
            "different SELinux label",
            id="a-pod-that-leaves",
        ),
    ],
)
def test_what_is_refused_and_counted(
    label: str, mounts: bool, users: list[LabelUser], counted: tuple[str, bool] | None, error: str
) -> None:
    """In the kubelet's words."""
    found: list[tuple[str, str, str, bool]] = []
    failed = ""
    try:
        check_label(VOLUME, AskedLabel(label, "RWO", mounts), users, lambda *one: found.append(one))
    except VolumeFailed as refused:
        failed = str(refused)
    assert failed == error
    assert found == ([(counted[0], VOLUME.plugin, "RWO", counted[1])] if counted else [])


@pytest.mark.parametrize(
    ("modes", "gate", "levels", "mode", "label", "counted"),
    [
        pytest.param(ALONE, False, ["s0:c1,c2"], "RWOP", A, None, id="one-pod-alone"),
        pytest.param(SHARED, False, ["s0:c1,c2"], "RWO", A, None, id="shared"),
        pytest.param(("ReadOnlyMany", "ReadWriteMany"), True, ["s0:c1,c2"], "RWX", A, None, id="the-highest-mode"),
        pytest.param(SHARED, False, ["s0:c1", "s0:c2"], "RWO", None, ("pod_context_mismatch", False), id="two-labels"),
        pytest.param(SHARED, True, ["s0:c1", "s0:c2"], "RWO", None, ("pod_context_mismatch", True), id="with-the-gate"),
        pytest.param(ALONE, False, ["s0:c1", "s0:c2"], "RWOP", None, ("pod_context_mismatch", True), id="alone"),
        pytest.param(SHARED, False, ['s0"'], "RWO", None, ("container", False), id="no-label"),
        pytest.param(SHARED, True, ['s0"'], "RWO", None, ("container", True), id="no-label-with-the-gate"),
    ],
)
def test_what_a_pod_asks(
    services: NodeServices,
    modes: tuple[str, ...],
    gate: bool,
    levels: list[str],
    mode: str,
    label: str | None,
    counted: tuple[str, bool] | None,
) -> None:
    """desired_state_of_world_selinux_metrics_test.go."""
    found: list[tuple[str, str, str, bool]] = []
    settings = replace(services.settings, selinux_file_label=DEFAULT, selinux_mount=gate)
    there = replace(services, settings=settings, timings=Timings(labelled=lambda *one: found.append(one)))
    pod = {"spec": {"containers": [container(seLinuxOptions={"level": one}) for one in levels]}}
    volume = PodVolume(PodKey("default", "web", "uid-1"), "data", {}, pod, there)
    if counted and counted[1]:
        with pytest.raises(NotProcessed):
            asked_label(volume, modes)
    else:
        asked = asked_label(volume, modes)
        assert (asked.label if asked else None) == label
        assert asked is None or asked.mode == mode
    assert found == ([(counted[0], "", mode, counted[1])] if counted else [])
    assert asked_label(replace(volume, services=services), modes) is None


OPTIONS = {"level": "s0:c1,c2"}


def container(volume: str = "data", **context: Any) -> dict[str, Any]:
    """Build a container that mounts a volume."""
    return {"name": "c", "volumeMounts": [{"name": volume, "mountPath": "/d"}], "securityContext": context}


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        pytest.param({"containers": [container(seLinuxOptions=OPTIONS)]}, [A], id="the-containers-own"),
        pytest.param({"containers": [container("other", seLinuxOptions=OPTIONS)]}, [], id="of-another-volume"),
        pytest.param({"containers": [container()], "securityContext": {"seLinuxOptions": OPTIONS}}, [A], id="the-pods"),
        pytest.param(
            {
                "containers": [container(seLinuxOptions={"level": "s0:c3,c4"})],
                "securityContext": {"seLinuxOptions": OPTIONS},
            },
            [B],
            id="the-container-before-the-pod",
        ),
        pytest.param(
            {"initContainers": [container(seLinuxOptions=OPTIONS)], "containers": [container()]}, [A], id="an-init-one"
        ),
        pytest.param({"containers": [container(seLinuxOptions={"type": "t"})]}, [], id="without-a-level"),
        pytest.param({"containers": [{"name": "c"}]}, [], id="nothing"),
        pytest.param({}, [], id="no-container"),
    ],
)
def test_the_labels_of_containers(spec: dict[str, Any], labels: list[str]) -> None:
    """Of those that mount the volume and say what they want."""
    assert list(container_labels({"spec": spec}, "data", DEFAULT)) == labels


@pytest.mark.parametrize(
    ("options", "label"),
    [
        pytest.param({"level": "s0:c1,c2"}, A, id="level"),
        pytest.param(
            {"level": "s0:c1,c2", "user": "u", "role": "r", "type": "container_t"},
            "u:object_r:container_file_t:s0:c1,c2",
            id="role-and-type-are-the-processs",
        ),
        pytest.param({}, DEFAULT, id="nothing"),
    ],
)
def test_the_label_of_files(options: dict[str, str], label: str) -> None:
    """label_linux_test.go TestInit."""
    assert file_label(options, DEFAULT) == label


CONTEXTS = f'# comment\nprocess = "system_u:system_r:container_t:s0"\nfile = "{DEFAULT}"\n'


@pytest.mark.parametrize(
    ("files", "label"),
    [
        pytest.param({"usr/share/containers/selinux/contexts": CONTEXTS}, DEFAULT, id="of-containers"),
        pytest.param(
            {
                "etc/selinux/config": "SELINUX=enforcing\nSELINUXTYPE=targeted\n",
                "etc/selinux/targeted/contexts/lxc_contexts": CONTEXTS,
            },
            DEFAULT,
            id="of-the-policy",
        ),
        pytest.param({"usr/share/containers/selinux/contexts": "file = nonsense\n"}, "", id="no-label"),
        pytest.param({"usr/share/containers/selinux/contexts": "\udcff"}, "", id="no-text"),
        pytest.param({}, "", id="no-file"),
    ],
)
def test_the_systems_label(tmp_path: Path, files: dict[str, str], label: str) -> None:
    """Where the runtime reads it; nothing where SELinux is off."""
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, errors="surrogateescape")
    assert default_file_label(tmp_path) == ""
    (tmp_path / "sys/fs/selinux").mkdir(parents=True)
    (tmp_path / "sys/fs/selinux/enforce").touch()
    assert default_file_label(tmp_path) == label
