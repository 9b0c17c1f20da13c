"""Does the quick choice of official tests pass on a booted machine: cgroup v2, the systemd driver, containerd 2, kubeadm's configuration?

The machine is emulated, about ten times slower than the tests' authors thought. So few run at a time, their fixtures may take longer, and
what failed runs once more, alone. `summary` in FOLDER names what passed only then.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.conformance.conformance_run import OUT, Choice, Result, exactly, read_result, run_ginkgo
from tests.cluster.conformance.test_conformance_quick import QUICK
from tests.machine.joined.node import Joined

PROCESSES: Final = 3
FOLDER: Final = OUT / "machine"
"""Where log and junit file stay; those of the second run are in `alone`."""


@pytest.fixture(scope="module")
def result(node: Joined) -> Result:
    """Run the selected tests, then those that failed once more, one after the other."""
    first = _run(node, FOLDER, QUICK, PROCESSES)
    alone = _run(node, FOLDER / "alone", first.missed, 1) if first.missed else first
    late = [name for name in first.missed if name in alone.passed]
    once_more = [f"passed only alone: {name}: {first.failures.get(name, 'it did not run')}" for name in late]
    (FOLDER / "summary").write_text("\n".join([*first.lines(), *once_more, *alone.lines(), ""]))
    return Result(first.ran | alone.ran, first.passed | alone.passed, first.owed, alone.failures)


def _run(node: Joined, folder: Path, names: Sequence[str], processes: int) -> Result:
    folder.mkdir(parents=True, exist_ok=True)
    choice = Choice(procs=processes, focus=exactly(names))
    run_ginkgo(node.plane.programs, node.plane.admin_kubeconfig, folder, choice)
    return read_result(folder, names)


@pytest.mark.machine
def test_the_node_is_as_kubeadm_makes_it(node: Joined) -> None:
    """On cgroup v2 with the systemd driver, which containerd tells; the configuration is the cluster's, to the byte."""
    published = node.plane.api.get("/api/v1/namespaces/kube-system/configmaps/kubelet-config")["data"]["kubelet"]
    assert node.machine.get("/etc/tempolet/kubelet.yaml").decode() == published
    assert node.machine.run("stat -fc %T /sys/fs/cgroup").stdout.strip() == "cgroup2fs"
    assert "kubepods.slice" in node.machine.run("systemctl list-units --plain --no-legend 'kubepods.slice'").stdout


@pytest.mark.machine
@pytest.mark.parametrize("name", QUICK)
def test_official(name: str, result: Result) -> None:
    """A skipped test counts as failed."""
    assert name in result.passed, result.failures.get(name, "it did not run")
