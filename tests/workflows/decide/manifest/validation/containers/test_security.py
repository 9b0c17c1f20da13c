"""Is a security context refused exactly when the API's ValidatePodCreate refuses it, with the same message?

The rows are the kubelet's (pkg/apis/core/validation validation_test.go: TestValidatePodSpec, TestValidateSecurityContext,
TestValidateSysctls, TestValidateHostUsers, the fields of TestValidateSeccompAnnotationAndFieldMatch, AppArmor's).
"""

from typing import Any

import pytest

from tests.workflows.decide.pods import Pod, container, pod
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import POD
from workflows.decide.manifest.validation.ephemeral import judge_ephemeral_container
from workflows.decide.manifest.validation.pod import validate_pod

C0 = "spec.containers[0].securityContext"
S = "spec.securityContext"
RANGE = "must be between 0 and 2147483647, inclusive"
NAME_RULE = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
TYPES = 'supported values: "Localhost", "RuntimeDefault", "Unconfined"'


def secured(**context: Any) -> Pod:
    """Build a pod with this security context."""
    return pod(securityContext=context)


def own(**context: Any) -> Pod:
    """Build a container with this security context."""
    return container(securityContext=context)


def sysctls(*names: str, **spec: Any) -> Pod:
    """Build a pod that sets these sysctls."""
    return pod(securityContext={"sysctls": [{"name": name, "value": "1"} for name in names]}, **spec)


ROWS = [
    pytest.param(secured(), [], id="an-empty-one"),
    pytest.param(
        secured(
            runAsUser=1,
            runAsGroup=2**31 - 1,
            fsGroup=0,
            supplementalGroups=[1, 2],
            supplementalGroupsPolicy="Strict",
            fsGroupChangePolicy="OnRootMismatch",
            runAsNonRoot=True,
            seLinuxOptions={"user": "u", "role": "r", "type": "t", "level": "l"},
            seccompProfile={"type": "RuntimeDefault"},
            appArmorProfile={"type": "Unconfined"},
        ),
        [],
        id="all-that-a-pod-may-say",
    ),
    pytest.param(
        own(
            capabilities={"add": ["NET_ADMIN", "CAP_SYS_ADMIN"], "drop": ["ALL"]},
            privileged=False,
            allowPrivilegeEscalation=True,
            readOnlyRootFilesystem=True,
            procMount="Default",
            runAsUser=0,
        ),
        [],
        id="all-that-a-container-may-say",
    ),
    pytest.param(secured(runAsUser=-1), [f"{S}.runAsUser: Invalid value: -1: {RANGE}"], id="a-negative-user"),
    pytest.param(secured(fsGroup=2**31), [f"{S}.fsGroup: Invalid value: 2147483648: {RANGE}"], id="a-group-too-large"),
    pytest.param(secured(runAsGroup=-1), [f"{S}.runAsGroup: Invalid value: -1: {RANGE}"], id="a-negative-group"),
    pytest.param(
        secured(supplementalGroups=[5, -1]),
        [f"{S}.supplementalGroups[1]: Invalid value: -1: {RANGE}"],
        id="a-negative-further-group",
    ),
    pytest.param(
        own(runAsUser=2**31), [f"{C0}.runAsUser: Invalid value: 2147483648: {RANGE}"], id="a-container's-user"
    ),
    pytest.param(own(runAsGroup=-5), [f"{C0}.runAsGroup: Invalid value: -5: {RANGE}"], id="a-container's-group"),
    pytest.param(
        secured(supplementalGroupsPolicy="Loose"),
        [f'{S}.supplementalGroupsPolicy: Unsupported value: "Loose": supported values: "Merge", "Strict"'],
        id="an-unknown-policy",
    ),
    pytest.param(
        secured(fsGroupChangePolicy="Never"),
        [f'{S}.fsGroupChangePolicy: Unsupported value: "Never": supported values: "Always", "OnRootMismatch"'],
        id="an-unknown-change-policy",
    ),
    pytest.param(
        pod(hostPID=True, shareProcessNamespace=True),
        [
            f"{S}.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
        ],
        id="processes-of-the-node-and-of-the-pod",
    ),
    pytest.param(pod(hostPID=True, hostIPC=True, hostNetwork=True), [], id="all-namespaces-of-the-node"),
    pytest.param(
        sysctls("net.ipv4.tcp_syncookies", "kernel/shm_rmid_forced", "net.ipv4.conf.IF/1.x".lower()), [], id="sysctls"
    ),
    pytest.param(sysctls(""), [f"{S}.sysctls[0].name: Required value"], id="a-sysctl-without-a-name"),
    pytest.param(sysctls("i..n"), [f'{S}.sysctls[0].name: Invalid value: "i..n": {NAME_RULE}'], id="two-dots"),
    pytest.param(
        sysctls("kernel.sem", "kernel.sem"),
        [f'{S}.sysctls[1].name: Duplicate value: "kernel.sem"'],
        id="one-sysctl-twice",
    ),
    pytest.param(
        sysctls("net.ipv4.x", hostNetwork=True),
        [f"{S}.sysctls[0].name: Invalid value: \"net.ipv4.x\": may not be specified when 'hostNetwork' is true"],
        id="a-sysctl-of-the-node's-network",
    ),
    pytest.param(
        sysctls("kernel.sem", hostIPC=True),
        [f"{S}.sysctls[0].name: Invalid value: \"kernel.sem\": may not be specified when 'hostIPC' is true"],
        id="a-sysctl-of-the-node's-shared-memory",
    ),
    pytest.param(
        secured(seccompProfile={}),
        [f"{S}.seccompProfile.type: Required value: type is required when seccompProfile is set"],
        id="seccomp-without-a-type",
    ),
    pytest.param(
        own(seccompProfile={"type": "x"}),
        [f'{C0}.seccompProfile.type: Unsupported value: "x": {TYPES}'],
        id="seccomp-of-an-unknown-type",
    ),
    pytest.param(
        own(seccompProfile={"type": "Localhost"}),
        [f"{C0}.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost"],
        id="seccomp-without-a-file",
    ),
    pytest.param(
        own(seccompProfile={"type": "Localhost", "localhostProfile": "/etc/../passwd"}),
        [
            f'{C0}.seccompProfile.localhostProfile: Invalid value: "/etc/../passwd": must be a relative path',
            f"{C0}.seccompProfile.localhostProfile: Invalid value: \"/etc/../passwd\": must not contain '..'",
        ],
        id="seccomp-that-leaves-its-folder",
    ),
    pytest.param(
        own(seccompProfile={"type": "Unconfined", "localhostProfile": "x"}),
        [f"{C0}.seccompProfile.localhostProfile: Invalid value: {{…}}: can only be set when seccomp type is Localhost"],
        id="seccomp-with-a-file-too-many",
    ),
    pytest.param(
        secured(appArmorProfile={"localhostProfile": "x"}),
        [f"{S}.appArmorProfile.type: Required value: type is required when appArmorProfile is set"],
        id="apparmor-without-a-type",
    ),
    pytest.param(
        own(appArmorProfile={"type": "x"}),
        [f'{C0}.appArmorProfile.type: Unsupported value: "x": {TYPES}'],
        id="apparmor-of-an-unknown-type",
    ),
    pytest.param(
        own(appArmorProfile={"type": "Localhost", "localhostProfile": " a"}),
        [f'{C0}.appArmorProfile.localhostProfile: Invalid value: " a": must not be padded with whitespace'],
        id="apparmor-padded",
    ),
    pytest.param(
        own(appArmorProfile={"type": "Localhost", "localhostProfile": ""}),
        [f"{C0}.appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost"],
        id="apparmor-empty",
    ),
    pytest.param(
        own(appArmorProfile={"type": "Localhost", "localhostProfile": "a" * 4096}),
        [f"{C0}.appArmorProfile.localhostProfile: Too long: may not be more than 4095 bytes"],
        id="apparmor-too-long",
    ),
    pytest.param(
        own(appArmorProfile={"type": "RuntimeDefault", "localhostProfile": "a"}),
        [f'{C0}.appArmorProfile.localhostProfile: Invalid value: "a": can only be set when AppArmor type is Localhost'],
        id="apparmor-with-a-name-too-many",
    ),
    pytest.param(
        own(procMount="x"),
        [f'{C0}.procMount: Unsupported value: "x": supported values: "Default", "Unmasked"'],
        id="an-unknown-proc-mount",
    ),
    pytest.param(
        own(procMount="Unmasked"),
        [f'{C0}.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`'],
        id="unmasked-with-the-node's-users",
    ),
    pytest.param(
        own(allowPrivilegeEscalation=False, privileged=True),
        [(f"{C0}: Invalid value: {{…}}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true")],
        id="privileged-without-privileges",
    ),
    pytest.param(
        own(allowPrivilegeEscalation=False, capabilities={"add": ["CAP_SYS_ADMIN"]}),
        [
            (
                f"{C0}: Invalid value: {{…}}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add`"
                " CAP_SYS_ADMIN"
            )
        ],
        id="the-administrator-without-privileges",
    ),
    pytest.param(
        pod(initContainers=[{"name": "i", "image": "a", "securityContext": {"runAsUser": -1}}]),
        [f"spec.initContainers[0].securityContext.runAsUser: Invalid value: -1: {RANGE}"],
        id="an-init-container's",
    ),
    pytest.param(
        pod(hostUsers=False, hostNetwork=True, hostPID=True, hostIPC=True),
        [
            "spec.hostNetwork: Forbidden: when `hostUsers` is false",
            "spec.HostPID: Forbidden: when `hostUsers` is false",
            "spec.HostIPC: Forbidden: when `hostUsers` is false",
        ],
        id="users-of-its-own-and-namespaces-of-the-node",
    ),
    pytest.param(
        pod(hostUsers=False, containers=[{"name": "a", "image": "a", "securityContext": {"procMount": "Unmasked"}}]),
        [],
        id="unmasked-with-users-of-its-own",
    ),
    pytest.param(
        pod(os={"name": "windows"}, hostPID=True, shareProcessNamespace=False, securityContext={"runAsUser": 1}),
        [
            "spec.shareProcessNamespace: Forbidden: cannot be set for a windows pod",
            "spec.hostPID: Forbidden: cannot be set for a windows pod",
            "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
        ],
        id="for-windows",
    ),
    pytest.param(
        pod(
            os={"name": "windows"},
            containers=[{"name": "a", "image": "a", "securityContext": {"runAsNonRoot": True, "privileged": False}}],
        ),
        [f"{C0}.privileged: Forbidden: cannot be set for a windows pod"],
        id="a-container-for-windows",
    ),
]


@pytest.mark.parametrize(("manifest", "faults"), ROWS)
def test_security(manifest: Pod, faults: list[str]) -> None:
    """Each error by its path."""
    assert list(validate_pod(default_pod(manifest))) == faults


def test_what_is_for_windows_is_not_run() -> None:
    """By its path, like every unsupported field."""
    found = read_structure(secured(windowsOptions={"hostProcess": True}), POD)
    assert [one.partition(";")[0] for one in found.not_yet] == [
        "spec.securityContext.windowsOptions: not supported: this node runs Linux"
    ]


def test_a_sysctl_without_a_value_has_an_empty_one() -> None:
    """As Go decodes it."""
    filled = default_pod(secured(sysctls=[{"name": "kernel.sem"}]))
    assert filled["spec"]["securityContext"]["sysctls"] == [{"value": "", "name": "kernel.sem"}]


def test_an_ephemeral_container_is_judged_like_any_other() -> None:
    """Its pod determines whether it has a user namespace."""
    looks = {"name": "debug", "image": "busybox", "securityContext": {"procMount": "Unmasked", "runAsUser": -1}}
    path = "spec.ephemeralContainers[0].securityContext"
    judged = judge_ephemeral_container(default_pod(pod()), looks)
    assert list(judged.faults) == [
        f"{path}.runAsUser: Invalid value: -1: {RANGE}",
        f'{path}.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`',
    ]
    assert len(judge_ephemeral_container(default_pod(pod(hostUsers=False)), looks).faults) == 1
