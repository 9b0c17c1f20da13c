"""Do the invariants hold on real containerd after each fault?

`make test` plays each fault once, with a fixed seed. `make chaos` draws seeds, prints them, and goes on for as long as it may.
"""

from pathlib import Path

import pytest

from tests.chaos.node.faults import FAULTS
from tests.chaos.node.scenario import Scenario
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

FIXED_SEED = 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Take the scenarios and seeds that were asked for."""
    asked, seed = metafunc.config.getoption("--chaos-scenario"), metafunc.config.getoption("--chaos-seed")
    names = [name for name in FAULTS if asked in {"", name}]
    seed = FIXED_SEED if seed is None else seed
    metafunc.parametrize(("fault", "seed"), [pytest.param(name, seed, id=f"{name}-{seed}") for name in names])


def test_a_scenario(fault: str, seed: int, tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> None:
    """See the table in tests/chaos/README.md."""
    scenario = Scenario(fault, seed, tmp_path, containerd, temporal)
    scenario.run()
    print("\n".join([f"recovered in {scenario.recovery:.1f} s", *scenario.scene.timeline]))
