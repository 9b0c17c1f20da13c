"""Is enforceNodeAllocatable validated with the kubelet's rules and words, before anything is touched?"""

from pathlib import Path

import pytest

from proto.kubernetes.resources.quantity import parse_quantity
from tests.worker.settings.test_config import load
from worker.settings.cgroups.enforcement import Enforcement, ReservedCgroup
from worker.settings.kubelet.configuration import ConfigurationRefused

SAID = "enforceNodeAllocatable (--enforce-node-allocatable)"
SYSTEM = "systemReservedCgroup: /sys\nsystemReserved: {cpu: 100m}\n"
KUBE = "kubeReservedCgroup: /kube\nkubeReserved: {memory: 1Gi, pid: '100'}\n"
OF_SYSTEM = ReservedCgroup("System Reserved", "/sys", {"cpu": parse_quantity("100m")})
OF_KUBE = ReservedCgroup("Kube Reserved", "/kube", {"memory": parse_quantity("1Gi"), "pid": parse_quantity("100")})
OF_KUBES_CPU = ReservedCgroup(OF_KUBE.title, OF_KUBE.cgroup, OF_KUBE.amounts, compressible=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", Enforcement(), id="the-default-is-pods"),
        pytest.param("enforceNodeAllocatable: null", Enforcement(), id="null-is-the-default"),
        pytest.param("enforceNodeAllocatable: [pods]", Enforcement(), id="pods"),
        pytest.param("enforceNodeAllocatable: [none]", Enforcement(pods=False), id="none"),
        pytest.param("enforceNodeAllocatable: []", Enforcement(pods=False), id="an-empty-list-is-none"),
        pytest.param(
            "enforceNodeAllocatable: [none]\ncgroupsPerQOS: false", Enforcement(pods=False), id="none-without-tiers"
        ),
        pytest.param(
            SYSTEM + "enforceNodeAllocatable: [pods, system-reserved]",
            Enforcement(reserved=(OF_SYSTEM,)),
            id="system-reserved",
        ),
        pytest.param(
            KUBE + "enforceNodeAllocatable: [kube-reserved]",
            Enforcement(pods=False, reserved=(OF_KUBE,)),
            id="kube-reserved-alone",
        ),
        pytest.param(
            KUBE + SYSTEM + "enforceNodeAllocatable: [kube-reserved-compressible, pods, system-reserved]",
            Enforcement(reserved=(OF_SYSTEM, OF_KUBES_CPU)),
            id="in-the-kubelets-order",
        ),
        pytest.param(
            "kubeReservedCgroup: /kube\nenforceNodeAllocatable: [kube-reserved]",
            Enforcement(pods=False, reserved=(ReservedCgroup("Kube Reserved", "/kube", {}),)),
            id="nothing-reserved-is-found-at-the-start",
        ),
    ],
)
def test_what_is_enforced(tmp_path: Path, text: str, expected: Enforcement) -> None:
    """By cgroup, with the amounts."""
    assert load(tmp_path, text).enforcement == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "enforceNodeAllocatable: [pod]",
            f'option "pod" specified for {SAID}. Valid options are "pods", "system-reserved", '
            '"system-reserved-compressible", "kube-reserved", "kube-reserved-compressible" or "none"',
            id="unknown",
        ),
        pytest.param(
            "enforceNodeAllocatable: [pods, none]",
            f'{SAID} may not contain additional enforcements when "none" is specified',
            id="none-stands-alone",
        ),
        pytest.param("enforceNodeAllocatable: [pods, pods]", f'duplicated enforcements "pods" in {SAID}', id="twice"),
        pytest.param(
            SYSTEM + "enforceNodeAllocatable: [system-reserved-compressible, system-reserved]",
            f'both "system-reserved" and "system-reserved-compressible" cannot be specified together in {SAID}',
            id="system-plain-and-compressible",
        ),
        pytest.param(
            KUBE + "enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]",
            f'both "kube-reserved" and "kube-reserved-compressible" cannot be specified together in {SAID}',
            id="kube-plain-and-compressible",
        ),
        pytest.param(
            "enforceNodeAllocatable: [system-reserved]",
            'systemReservedCgroup (--system-reserved-cgroup) must be specified when "system-reserved" or '
            f'"system-reserved-compressible" included in {SAID}',
            id="system-without-its-cgroup",
        ),
        pytest.param(
            "enforceNodeAllocatable: [kube-reserved-compressible]",
            'kubeReservedCgroup (--kube-reserved-cgroup) must be specified when "kube-reserved" or '
            f'"kube-reserved-compressible" included in {SAID}',
            id="kube-without-its-cgroup",
        ),
        pytest.param(
            "cgroupsPerQOS: false",
            f'cgroupsPerQOS (--cgroups-per-qos) must be set to true when "pods" contained in {SAID}',
            id="the-default-needs-tiers",
        ),
        pytest.param(
            KUBE + "enforceNodeAllocatable: [kube-reserved]\ncgroupsPerQOS: false",
            f'cgroupsPerQOS (--cgroups-per-qos) must be set to true when "kube-reserved" contained in {SAID}',
            id="so-does-a-reservation",
        ),
        pytest.param(
            KUBE + "reservedSystemCPUs: 0-1",
            "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or "
            "kubeReservedCgroup (--kube-reserved-cgroup)",
            id="reserved-cpus-beside-a-cgroup",
        ),
        pytest.param("enforceNodeAllocatable: pods", "enforceNodeAllocatable: 'pods' is text", id="no-list"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """In the kubelet's words, each once."""
    with pytest.raises(ConfigurationRefused) as refused:
        load(tmp_path, text)
    assert str(refused.value).count(message) == 1


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """An operator mends a file in one go."""
    with pytest.raises(ConfigurationRefused) as refused:
        load(tmp_path, "enforceNodeAllocatable: [none, all, all, kube-reserved]")
    lines = str(refused.value).splitlines()
    assert len(lines) == 4, lines
