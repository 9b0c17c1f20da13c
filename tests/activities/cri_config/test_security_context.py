"""Does the runtime get the same users, groups, privileges, profiles and namespaces as from a kubelet for the same pod?"""

from typing import Any

import pytest

from activities.cri_config.security_context import (
    NODES_USERS,
    BreaksNonRootError,
    ImageUser,
    NodeSecurity,
    SecurityInputs,
    container_security,
    namespaces,
    sandbox_security,
    sandbox_sysctls,
    verify_non_root,
)
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.pod import PodKey

KEY = PodKey("prod", "web", "uid-1")
OWN, POD, NODE, TARGET = (
    cri.NamespaceMode.CONTAINER,
    cri.NamespaceMode.POD,
    cri.NamespaceMode.NODE,
    cri.NamespaceMode.TARGET,
)
DEFAULT, UNCONFINED, LOCAL = (
    cri.SecurityProfile.RuntimeDefault,
    cri.SecurityProfile.Unconfined,
    cri.SecurityProfile.Localhost,
)
ROOT = ImageUser(0)
NAMED = ImageUser(None, "nginx")


def pod(context: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a pod of one container, with this security context."""
    return {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main"}], "securityContext": context, **spec}}


def inputs(
    of_pod: dict[str, Any] | None = None, own: dict[str, Any] | None = None, user: ImageUser = ROOT, **more: Any
) -> SecurityInputs:
    """Ask about the container `main` of a pod, by what both say."""
    container = {"name": "main", "securityContext": own}
    return SecurityInputs(key=KEY, pod=pod(of_pod), container=container, image_user=user, **more)


@pytest.mark.parametrize(
    ("of_pod", "own", "user", "told"),
    [
        pytest.param({}, {}, ROOT, (0, None, ""), id="an-image-of-root-is-said-to-be-one"),
        pytest.param({}, {}, ImageUser(1000), (1000, None, ""), id="an-image's-number"),
        pytest.param({}, {}, NAMED, (None, None, "nginx"), id="an-image's-name"),
        pytest.param({"runAsUser": 5}, {}, NAMED, (5, None, ""), id="the-pod's-number-goes-before-the-image's-name"),
        pytest.param({"runAsUser": 5}, {"runAsUser": 0}, ROOT, (0, None, ""), id="the-container's-goes-before-both"),
        pytest.param({"runAsGroup": 7}, {}, ROOT, (0, 7, ""), id="a-group-never-stands-without-a-user"),
        pytest.param({"runAsGroup": 7}, {"runAsGroup": 8}, NAMED, (None, 8, "nginx"), id="the-container's-group"),
    ],
)
def test_as_whom_it_runs(
    of_pod: dict[str, Any], own: dict[str, Any], user: ImageUser, told: tuple[int | None, int | None, str]
) -> None:
    """By number where there is one."""
    built = container_security(inputs(of_pod, own, user))
    number = built.run_as_user.value if built.HasField("run_as_user") else None
    group = built.run_as_group.value if built.HasField("run_as_group") else None
    assert (number, group, built.run_as_username) == told


@pytest.mark.parametrize(
    ("of_pod", "own", "user", "why"),
    [
        pytest.param({}, {}, ROOT, "", id="nobody-asks"),
        pytest.param({"runAsNonRoot": True}, {"runAsNonRoot": False}, ROOT, "", id="the-container-does-not-ask"),
        pytest.param({}, {"runAsNonRoot": True, "runAsUser": 1}, ROOT, "", id="a-number-that-is-not-root"),
        pytest.param({"runAsUser": 1}, {"runAsNonRoot": True}, NAMED, "", id="a-number-of-the-pod-is-enough"),
        pytest.param({}, {"runAsNonRoot": True}, ImageUser(1), "", id="an-image-that-is-not-root"),
        pytest.param({}, {"runAsNonRoot": True}, ImageUser(None), "", id="nothing-known-at-all"),
        pytest.param(
            {},
            {"runAsNonRoot": True, "runAsUser": 0},
            ImageUser(1),
            "container's runAsUser breaks non-root policy",
            id="root-asked-for",
        ),
        pytest.param(
            {"runAsNonRoot": True},
            {},
            ROOT,
            "container has runAsNonRoot and image will run as root",
            id="an-image-of-root",
        ),
        pytest.param(
            {"runAsNonRoot": True},
            {},
            NAMED,
            "container has runAsNonRoot and image has non-numeric user (nginx), cannot verify user is non-root",
            id="a-name-tells-nothing",
        ),
        pytest.param(
            {"runAsNonRoot": True},
            {},
            ImageUser(2**31),
            (
                "container has runAsNonRoot and image has an invalid user id (2147483648). (Must be 1-(2147483647)): must be"
                " between 0 and 2147483647, inclusive"
            ),
            id="no-such-number",
        ),
        pytest.param(
            {"runAsNonRoot": True},
            {},
            ImageUser(2**32),
            (
                "container has runAsNonRoot and image has an invalid user id (4294967296). (Must be 1-(2147483647)): must be"
                " between 0 and 2147483647, inclusive"
            ),
            id="a-number-that-a-runtime-may-take-for-0",
        ),
        pytest.param(
            {"runAsNonRoot": True},
            {},
            ImageUser(None, str(2**70)),
            f"container has runAsNonRoot and image has non-numeric user ({2**70}), cannot verify user is non-root",
            id="a-number-that-a-runtime-may-take-for-a-name",
        ),
    ],
)
def test_who_must_not_be_root(of_pod: dict[str, Any], own: dict[str, Any], user: ImageUser, why: str) -> None:
    """In the kubelet's words, for an operator searches for them."""
    if not why:
        verify_non_root(inputs(of_pod, own, user))
        return
    with pytest.raises(BreaksNonRootError) as raised:
        container_security(inputs(of_pod, own, user))
    assert str(raised.value) == f'{why} (pod: "web_prod(uid-1)", container: main)'


def profile(kind: str, path: str | None = None) -> dict[str, Any]:
    """Say a profile."""
    return {"type": kind} | ({"localhostProfile": path} if path else {})


@pytest.mark.parametrize(
    ("of_pod", "own", "default", "told"),
    [
        pytest.param(None, None, False, (UNCONFINED, ""), id="nobody-says-anything"),
        pytest.param(None, None, True, (DEFAULT, ""), id="the-node-says"),
        pytest.param(profile("Unconfined"), None, True, (UNCONFINED, ""), id="the-pod-goes-before-the-node"),
        pytest.param(profile("RuntimeDefault"), None, False, (DEFAULT, ""), id="the-runtime's"),
        pytest.param(
            profile("Unconfined"),
            profile("RuntimeDefault"),
            False,
            (DEFAULT, ""),
            id="the-container-goes-before-the-pod",
        ),
        pytest.param(
            None, profile("Localhost", "a/b.json"), True, (LOCAL, "/var/lib/kubelet/seccomp/a/b.json"), id="a-file"
        ),
        pytest.param(
            profile("Localhost", "./b//c"),
            None,
            False,
            (LOCAL, "/var/lib/kubelet/seccomp/b/c"),
            id="a-file-of-the-pod's",
        ),
    ],
)
def test_seccomp(
    of_pod: dict[str, Any] | None, own: dict[str, Any] | None, default: bool, told: tuple[int, str]
) -> None:
    """A file by its whole path on the node."""
    asked = inputs({"seccompProfile": of_pod}, {"seccompProfile": own}, node=NodeSecurity(seccomp_default=default))
    built = container_security(asked).seccomp
    assert (built.profile_type, built.localhost_ref) == told


@pytest.mark.parametrize("name", [{}, {"localhostProfile": ""}, {"localhostProfile": None}], ids=str)
@pytest.mark.parametrize("default", [False, True])
def test_a_seccomp_file_without_a_name_is_an_error(name: dict[str, Any], default: bool) -> None:
    """CVE-2023-2431: such a container once ran without seccomp. The API refuses it; so does the kubelet, should one come."""
    nameless = {"seccompProfile": {"type": "Localhost", **name}}
    for of_pod, own in ((nameless, {}), ({}, nameless), ({"seccompProfile": profile("RuntimeDefault")}, nameless)):
        with pytest.raises(ValueError, match="localhostProfile must be set"):
            container_security(inputs(of_pod, own, node=NodeSecurity(seccomp_default=default)))


@pytest.mark.parametrize(
    ("of_pod", "own", "told", "old"),
    [
        pytest.param(None, None, None, "", id="nobody-says-anything"),
        pytest.param(profile("RuntimeDefault"), None, (DEFAULT, ""), "runtime/default", id="the-runtime's"),
        pytest.param(
            profile("RuntimeDefault"), profile("Unconfined"), (UNCONFINED, ""), "unconfined", id="the-container's"
        ),
        pytest.param(None, profile("Localhost", "mine"), (LOCAL, "mine"), "localhost/mine", id="one-by-name"),
    ],
)
def test_apparmor(
    of_pod: dict[str, Any] | None, own: dict[str, Any] | None, told: tuple[int, str] | None, old: str
) -> None:
    """By both fields, for runtimes read one or the other."""
    built = container_security(inputs({"appArmorProfile": of_pod}, {"appArmorProfile": own}))
    found = (built.apparmor.profile_type, built.apparmor.localhost_ref) if built.HasField("apparmor") else None
    assert (found, built.apparmor_profile) == (told, old)


@pytest.mark.parametrize(
    ("allowed", "no_new_privileges"),
    [pytest.param(None, False, id="unsaid"), pytest.param(True, False, id="yes"), pytest.param(False, True, id="no")],
)
def test_whether_it_may_gain_privileges(allowed: bool | None, no_new_privileges: bool) -> None:
    """Only a word against it counts."""
    assert container_security(inputs(own={"allowPrivilegeEscalation": allowed})).no_new_privs is no_new_privileges


def test_which_of_the_kernels_files_it_sees() -> None:
    """All by default but those that tell of the node; all with procMount Unmasked."""
    hot = NodeSecurity(throttle_paths=("/sys/devices/system/cpu/cpu0/thermal_throttle",))
    built = container_security(inputs(node=hot))
    assert {"/proc/kcore", "/sys/firmware", *hot.throttle_paths} <= set(built.masked_paths)
    assert list(built.readonly_paths) == ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
    open_one = container_security(inputs(own={"procMount": "Unmasked"}, node=hot))
    assert (list(open_one.masked_paths), list(open_one.readonly_paths)) == ([], [])


def test_privileges_and_labels_are_passed_on() -> None:
    """Word for word; a container's label goes before its pod's."""
    own = {
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        "privileged": True,
        "readOnlyRootFilesystem": True,
        "seLinuxOptions": {"level": "s0:c1"},
    }
    built = container_security(inputs({"seLinuxOptions": {"user": "u", "type": "t"}}, own))
    assert built.capabilities == cri.Capability(add_capabilities=["NET_ADMIN"], drop_capabilities=["ALL"])
    assert (built.privileged, built.readonly_rootfs) == (True, True)
    assert built.selinux_options == cri.SELinuxOption(level="s0:c1")
    plain = container_security(inputs())
    assert not plain.HasField("capabilities")
    assert not plain.HasField("selinux_options")


def test_groups() -> None:
    """FsGroup is one of them, the first; the policy is the pod's."""
    said = {"fsGroup": 20, "supplementalGroups": [30, 40], "supplementalGroupsPolicy": "Strict"}
    built = container_security(inputs(said))
    assert list(built.supplemental_groups) == [20, 30, 40]
    assert built.supplemental_groups_policy == cri.SupplementalGroupsPolicy.Strict
    assert list(sandbox_security(pod(said), NODES_USERS).supplemental_groups) == [20, 30, 40]
    plain = container_security(inputs({"fsGroup": 0}))
    assert (list(plain.supplemental_groups), plain.supplemental_groups_policy) == ([0], 0)


@pytest.mark.parametrize(
    ("spec", "network", "ipc", "pid"),
    [
        pytest.param({}, POD, POD, OWN, id="processes-for-itself"),
        pytest.param({"hostNetwork": True, "hostIPC": True, "hostPID": True}, NODE, NODE, NODE, id="all-the-node's"),
        pytest.param({"shareProcessNamespace": True}, POD, POD, POD, id="processes-shared-in-the-pod"),
        pytest.param({"shareProcessNamespace": False}, POD, POD, OWN, id="not-shared"),
        pytest.param({"hostIPC": True}, POD, NODE, OWN, id="the-node's-shared-memory"),
    ],
)
def test_namespaces(spec: dict[str, Any], network: int, ipc: int, pid: int) -> None:
    """And a target counts only where processes are a container's own."""
    found = namespaces(pod(**spec), NODES_USERS)
    assert (found.network, found.ipc, found.pid, found.target_id) == (network, ipc, pid, "")
    assert found.userns_options.mode == NODE
    aimed = namespaces(pod(**spec), NODES_USERS, "c-web")
    assert (aimed.pid, aimed.target_id) == ((TARGET, "c-web") if pid == OWN else (pid, ""))


def test_groups_of_volumes() -> None:
    """Each that the pod does not name itself, once."""
    said = {"fsGroup": 20, "supplementalGroups": [30]}
    built = container_security(inputs(said, volume_groups=(50, 30, 40, 50)))
    assert list(built.supplemental_groups) == [20, 30, 40, 50]


def test_sandbox() -> None:
    """It runs as the pod's user, knows whether a privileged container is to come, and has the runtime's own profile."""
    said = {"runAsUser": 1, "runAsGroup": 2, "seLinuxOptions": {"role": "r"}, "seccompProfile": {"type": "Unconfined"}}
    built = sandbox_security(pod(said), NODES_USERS)
    assert (built.run_as_user.value, built.run_as_group.value, built.privileged) == (1, 2, False)
    assert (built.seccomp.profile_type, built.selinux_options.role) == (DEFAULT, "r")
    assert not sandbox_security(pod(), NODES_USERS).HasField("run_as_user")
    init = [{"name": "init", "securityContext": {"privileged": True}}]
    assert sandbox_security(pod(initContainers=init), NODES_USERS).privileged


def test_sysctls_are_written_with_dots() -> None:
    """Runc knows no other names (sysctl/util_test.go)."""
    said = [
        {"name": "kernel/sem", "value": "1 2"},
        {"name": "net/ipv4/conf/eno2.100/rp_filter", "value": "1"},
        {"name": "net.ipv4.conf.eno2/100.rp_filter", "value": ""},
    ]
    assert sandbox_sysctls(pod({"sysctls": said})) == {
        "kernel.sem": "1 2",
        "net.ipv4.conf.eno2/100.rp_filter": "",
    }
    assert sandbox_sysctls(pod()) == {}
