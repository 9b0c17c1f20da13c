"""Do the invariants hold on real containerd after each fault?

`make test` plays most faults once, with a fixed seed. `make chaos` draws seeds, prints them, and goes on for as long as it may.
"""

import os
from pathlib import Path

import pytest

from tests.chaos.node.faults import FAULTS
from tests.chaos.node.scenario import Scenario
from tests.chaos.node.stage import Stages
from tests.chaos.node.stepped_clock import NoCompiler

FIXED_SEED = 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Take the scenarios and seeds that were asked for."""
    asked, seed = metafunc.config.getoption("--chaos-scenario"), metafunc.config.getoption("--chaos-seed")
    names = [
        name for name, fault in FAULTS.items() if asked == name or (not asked and (fault.in_tests or seed is not None))
    ]
    seed = FIXED_SEED if seed is None else seed
    metafunc.parametrize(("fault", "seed"), [pytest.param(name, seed, id=f"{name}-{seed}") for name in names])


def test_a_scenario(fault: str, seed: int, tmp_path: Path, stages: Stages) -> None:
    """See the table in tests/chaos/faults.md."""
    try:
        stage = stages.at(FAULTS[fault].place)
    except NoCompiler as error:
        pytest.skip(str(error))
    scenario = Scenario(fault, seed, tmp_path, stage)
    try:
        scenario.run()
    except BaseException as broken:
        try:
            stages.drop()
        except Exception as error:  # noqa: BLE001 - what broke first is told first
            broken.add_note(f"and its pods could not be removed: {error}")
        raise
    told = f"recovered in {scenario.recovery:.1f} s, load {os.getloadavg()[0]:.0f}"
    print("\n".join([told, *scenario.scene.timeline]))
