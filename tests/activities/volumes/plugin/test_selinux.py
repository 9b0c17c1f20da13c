"""When is a volume mounted with the SELinux label of its pod, and which label is that?"""

from pathlib import Path
from typing import Any

import pytest

from activities.volumes.plugin.selinux import container_labels, default_file_label, file_label, mount_label
from activities.volumes.plugin.volume_type import VolumeFailed

DEFAULT = "system_u:object_r:container_file_t:s0"
ALONE, SHARED = ("ReadWriteOncePod",), ("ReadWriteOnce",)
A, B = f"{DEFAULT}:c1,c2", f"{DEFAULT}:c3,c4"


@pytest.mark.parametrize(
    ("labels", "modes", "policy", "by_driver", "label"),
    [
        pytest.param([A], ALONE, "", True, A, id="one-pod-with-one-label"),
        pytest.param([A, A], ALONE, "", True, A, id="two-containers-with-one-label"),
        pytest.param([A], ALONE, "MountOption", True, A, id="the-pod-asks-for-it"),
        pytest.param([A], ALONE, "Recursive", True, "", id="the-pod-does-not-want-it"),
        pytest.param([A], ALONE, "", False, "", id="its-driver-cannot"),
        pytest.param([], ALONE, "", True, "", id="a-pod-without-labels"),
        pytest.param([A], SHARED, "", True, "", id="a-volume-that-pods-may-share"),
        pytest.param([A], (*ALONE, *SHARED), "", True, "", id="of-several-access-modes"),
        pytest.param([A], (), "", True, "", id="of-no-access-mode"),
        pytest.param([A, B], SHARED, "", True, "", id="two-labels-of-a-shared-volume-are-the-runtimes-affair"),
    ],
)
def test_the_label_of_a_mount(
    labels: list[str], modes: tuple[str, ...], policy: str, by_driver: bool, label: str
) -> None:
    """desired_state_of_world_selinux_metrics_test.go, selinux_test.go TestGetMountSELinuxLabel."""
    assert mount_label(labels, modes, policy, by_driver=by_driver) == label


@pytest.mark.parametrize("by_driver", [True, False])
@pytest.mark.parametrize("policy", ["", "Recursive"])
def test_two_labels_of_one_volume(policy: str, by_driver: bool) -> None:
    """An error for a volume of one pod alone, whoever labels its files, as in the kubelet."""
    with pytest.raises(VolumeFailed, match=f"^multiple SELinux labels found: {A},{B}$"):
        mount_label([B, A], ALONE, policy, by_driver=by_driver)


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
