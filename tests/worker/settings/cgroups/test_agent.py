"""Are the keys about the node's own processes validated with the kubelet's rules and words?"""

from pathlib import Path

import pytest

from tests.worker.settings.test_config import load
from worker.settings.cgroups.agent import AgentProcesses
from worker.settings.kubelet.configuration import ConfigurationRefused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", AgentProcesses("", "", -999, 1_000_000), id="the-kubelets-defaults"),
        pytest.param("oomScoreAdj: 0\nmaxOpenFiles: 0", AgentProcesses("", "", 0, 1_000_000), id="zeros"),
        pytest.param(
            "kubeletCgroups: /k\nsystemCgroups: /s\ncgroupRoot: /\noomScoreAdj: -1000\nmaxOpenFiles: 1",
            AgentProcesses("/k", "/s", -1000, 1),
            id="said",
        ),
    ],
)
def test_what_is_obeyed(tmp_path: Path, text: str, expected: AgentProcesses) -> None:
    """Without a warning."""
    config = load(tmp_path, text)
    assert (config.agent, config.warnings) == (expected, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "systemCgroups: /s",
            "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified",
            id="no-root",
        ),
        pytest.param(
            "systemCgroups: /\ncgroupRoot: /",
            'systemCgroups: system container cannot be root ("/")',
            id="the-root-itself",
        ),
        pytest.param("kubeletCgroups: /a/../..", "kubeletCgroups: '/a/../..' leads upward", id="upward"),
        pytest.param(
            "maxOpenFiles: -1", "maxOpenFiles (--max-open-files) -1 must not be a negative number", id="negative-files"
        ),
        pytest.param(
            "oomScoreAdj: 1001",
            "oomScoreAdj (--oom-score-adj) 1001 must be between -1000 and 1000, inclusive",
            id="too-willing",
        ),
        pytest.param(
            "oomScoreAdj: -1001",
            "oomScoreAdj (--oom-score-adj) -1001 must be between -1000 and 1000, inclusive",
            id="too-unwilling",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """By its key."""
    with pytest.raises(ConfigurationRefused) as refused:
        load(tmp_path, text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("own", "warned"),
    [("/kube/tempolet", False), ("/kube", False), ("/other", True)],
    ids=["inside", "the-same", "elsewhere"],
)
def test_own_processes_outside_of_what_is_reserved_for_them(tmp_path: Path, own: str, warned: bool) -> None:
    """The kubelet calls this unsupported, and starts."""
    warnings = load(tmp_path, f"kubeReservedCgroup: /kube\nkubeletCgroups: {own}").warnings
    assert [one.partition(":")[0] for one in warnings] == ["kubeletCgroups"] * warned
