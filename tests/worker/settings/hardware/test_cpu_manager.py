"""Is the CPU manager configured as the kubelet's, and does every contradiction end the start with its words?"""

import functools
from datetime import timedelta
from pathlib import Path

import pytest

from tests.worker.settings.hardware.machines import Shape, machine
from tests.worker.settings.test_config import load
from worker.settings.hardware import cpu_manager
from worker.settings.hardware.cpu_topology import read_topology
from worker.settings.kubelet.configuration import ConfigurationRefused

STATIC = "cpuManagerPolicy: static\n"
ONE = STATIC + "reservedSystemCPUs: '0'\n"


@pytest.fixture(autouse=True)
def eight_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run on a machine with two NUMA nodes of two cores with two threads."""
    read = functools.partial(read_topology, *machine(tmp_path / "machine", Shape(2, 1, 2, 2)))
    monkeypatch.setattr(cpu_manager.cpu_manager, "__defaults__", (read,))


def test_without_a_policy_no_topology_is_read(tmp_path: Path) -> None:
    """The policy is none; the period is the kubelet's."""
    found = load(tmp_path, "").cpu_manager
    assert (found.policy, found.static, found.reconcile_every) == ("none", None, timedelta(seconds=10))
    assert load(tmp_path, "cpuManagerReconcilePeriod: 0s").cpu_manager.reconcile_every == timedelta(seconds=10)


@pytest.mark.parametrize(
    ("keys", "reserved", "milli"),
    [
        pytest.param(ONE, {0}, 1000, id="named"),
        pytest.param(STATIC + "kubeReserved: {cpu: 500m}\n", {0}, 500, id="rounded-up"),
        pytest.param(
            STATIC + "kubeReserved: {cpu: 200m}\nsystemReserved: {cpu: 900m}\n", {0, 4}, 1100, id="a-whole-core"
        ),
        pytest.param(ONE + "kubeReserved: {cpu: '2', memory: 1Mi}\n", {0}, 1000, id="named-ones-replace-amounts"),
    ],
)
def test_what_is_reserved(tmp_path: Path, keys: str, reserved: set[int], milli: int) -> None:
    """By name, or as many as the reservations of cpu make."""
    config = load(tmp_path, keys)
    assert config.cpu_manager.static is not None
    assert config.cpu_manager.static.reserved == reserved
    assert config.reserved.cpu_milli == milli
    assert config.warnings == ()


def test_cpus_are_reserved_by_name_without_a_policy(tmp_path: Path) -> None:
    """They count as reserved cpu."""
    config = load(tmp_path, "reservedSystemCPUs: 0-1\n")
    assert (config.reserved.cpu_milli, config.cpu_manager.static) == (2000, None)


def test_options(tmp_path: Path) -> None:
    """Those that are stable; a gate is needed for others, and one has a default."""
    options = "cpuManagerPolicyOptions: {full-pcpus-only: 'true', distribute-cpus-across-numa: 'true'}\n"
    found = load(tmp_path, ONE + options).cpu_manager.static
    assert found is not None
    assert (found.options.full_cores, found.options.across_nodes, found.options.strict_reservation) == (
        True,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        pytest.param(
            "cpuManagerPolicy: dynamic\n", 'unknown policy: "dynamic"; it must be "none" or "static"', id="policy"
        ),
        pytest.param(
            "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}\n",
            "None policy: received unsupported options=map[full-pcpus-only:true]; set cpuManagerPolicy to static, or remove them",
            id="options-of-none",
        ),
        pytest.param(
            ONE + "cpuManagerPolicyOptions: {fast: 'true'}\n",
            'unknown CPU Manager Policy option: "fast"; the options are full-pcpus-only, ',
            id="option",
        ),
        pytest.param(
            ONE + "cpuManagerPolicyOptions: {full-pcpus-only: 'on'}\n",
            'bad value for option "full-pcpus-only": strconv.ParseBool: parsing "on": invalid syntax; the value must be true or false',
            id="value",
        ),
        pytest.param(
            ONE + "cpuManagerPolicyOptions: {align-by-socket: 'true'}\n",
            'CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided; '
            "set the feature gate CPUManagerPolicyAlphaOptions to true, or remove the option",
            id="gate",
        ),
        pytest.param(
            ONE
            + "cpuManagerPolicyOptions: {prefer-align-cpus-by-uncorecache: 'true', distribute-cpus-across-numa: 'true'}\n",
            "static policy options prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa can not be used at the same time",
            id="a-pair",
        ),
        pytest.param(
            STATIC, "[cpumanager] unable to determine reserved CPU resources for static policy", id="no-reservation"
        ),
        pytest.param(
            "reservedSystemCPUs: 0,9\n", "reserved-cpus: 0,9 is not a subset of online-cpus: 0-7", id="no-such-cpu"
        ),
        pytest.param(
            "reservedSystemCPUs: a\n",
            'invalid configuration: unable to parse reservedSystemCPUs (--reserved-cpus) a, error: strconv.Atoi: parsing "a": invalid syntax',
            id="no-list",
        ),
        pytest.param(
            ONE
            + "featureGates: {CPUManagerPolicyAlphaOptions: true}\ntopologyManagerPolicy: single-numa-node\n"
            + "cpuManagerPolicyOptions: {align-by-socket: 'true'}\n",
            "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option",
            id="topology",
        ),
    ],
)
def test_what_ends_the_start(tmp_path: Path, keys: str, words: str) -> None:
    """In the kubelet's words."""
    with pytest.raises(ConfigurationRefused) as refused:
        load(tmp_path, keys)
    assert words in str(refused.value)


def test_configz_tells_what_was_given(tmp_path: Path) -> None:
    """And nothing else."""
    told = load(tmp_path, ONE).kubelet
    assert (told["cpuManagerPolicy"], told["reservedSystemCPUs"]) == ("static", "0")
    assert "cpu" not in (told.get("systemReserved") or {})
