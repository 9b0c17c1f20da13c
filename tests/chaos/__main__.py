"""`make chaos`: every fault on the model, and drawn scenarios on real containerd, side by side, until the time is over.

With --seed or --scenario only the scenarios of that seed or name run. What fails is printed with what plays it again.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from random import SystemRandom
from typing import Final

MINUTES: Final = 22.0
"""In which rounds of scenarios are begun, as long as one more fits in."""
MODEL: Final = ("tests/chaos/model", "-m", "stress or not stress")
SCENARIOS: Final = ("tests/chaos/node/test_scenarios.py", "-s")
PLUGINS: Final = "tests/chaos/plugins"
"""Kills at calls of plugins; of no scenario's name."""
SEEDS: Final = 1_000_000
NOTHING_CHOSEN: Final = 5
"""pytest's exit code when no test has the name."""


def main() -> int:
    """Run it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="play each scenario once, with this seed")
    parser.add_argument("--scenario", default="", help="play only the scenario of this name")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for rounds of scenarios")
    asked = parser.parse_args()
    if asked.seed is not None or asked.scenario:
        return _scenarios(asked.seed if asked.seed is not None else _draw(), asked.scenario)
    return _whole(asked.minutes)


def _whole(minutes: float) -> int:
    began, log = time.monotonic(), Path(".build/chaos-model.log")
    with log.open("wb") as out, subprocess.Popen(_pytest(*MODEL), stdout=out, stderr=out) as model:
        print(f"every boundary on the model: {log}", flush=True)
        codes = [_scenarios(_draw(), "")]
        while (spent := time.monotonic() - began) + spent / len(codes) < minutes * 60:  # there is time for one more
            codes.append(_scenarios(_draw(), ""))
        codes.append(model.wait())
    print(log.read_text()[-2000:])
    return max(codes)


def _scenarios(seed: int, name: str) -> int:
    """Play a round: each scenario, or that of the name, with one seed."""
    print(f"seed {seed}", flush=True)
    options = [f"--chaos-seed={seed}", f"--chaos-scenario={name}"]
    more = () if name else (PLUGINS,)
    code = subprocess.run(_pytest(*SCENARIOS, *more, *options), check=False).returncode
    if code == NOTHING_CHOSEN:
        print(f"no scenario is named {name}")
    return code


def _draw() -> int:
    return SystemRandom().randrange(SEEDS)


def _pytest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", *arguments]


if __name__ == "__main__":
    sys.exit(main())
