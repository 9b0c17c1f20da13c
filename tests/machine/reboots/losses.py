"""Power lost at random moments, of a guest or of a systemd on a disk that loses what was not flushed: what must hold after each."""

import os
import random
import time
from typing import Final, Protocol

SEED: Final = int(os.environ.get("POWER_LOSSES_SEED", "1"))
LOSSES: Final = int(os.environ.get("POWER_LOSSES", "20"))
LATEST: Final = 1.5
"""The latest moment after the power is on, as a part of what the last checked boot took: a third of the losses come later."""


class Powered(Protocol):
    """A machine with a node whose pods run."""

    def pull_plug(self) -> None:
        """Lose what was not flushed, and everything that runs."""

    def switch_on(self) -> None:
        """Begin to boot, and do not wait."""

    def until_clean(self) -> list[str]:
        """Wait until the pods' sandboxes run and nothing of a former boot is left; returns the node's mount points."""

    def until_pods_run(self) -> None:
        """Wait until all pods are ready, and no others are there."""

    def restarts(self) -> dict[str, int]:
        """Return the restart counts by the pods' names."""

    def last_said(self) -> str:
        """Return what tells how far a boot was when its power was lost."""


def lose_power(machine: Powered, checked_every: int) -> None:
    """Lose the power LOSSES times; each pod is back at every check, with one restart for each boot that got as far as it, and no more."""
    mounts = machine.until_clean()
    assert any("/volumes/" in one for one in mounts), mounts
    moments = random.Random(SEED)
    counts, counted_at, took = machine.restarts(), 0, 0.0
    for loss in range(1, LOSSES + 1):
        machine.pull_plug()
        began = time.monotonic()
        machine.switch_on()
        if took and loss % checked_every and loss < LOSSES:
            moment = moments.uniform(0, LATEST * took)
            time.sleep(moment)  # the moment is what is tried
            print(f"loss {loss}: on for {moment:.1f} s: {machine.last_said()}", flush=True)
            continue
        assert machine.until_clean() == mounts
        took = time.monotonic() - began  # `tempolet pods` may show the former boot for a moment
        machine.until_pods_run()
        now = machine.restarts()
        print(f"loss {loss}: back after {took:.1f} s, restarts {now}", flush=True)
        for pod, before in counts.items():
            assert before < now[pod] <= before + loss - counted_at, f"{pod}: {before} at loss {counted_at}, now {now}"
        counts, counted_at = now, loss
        time.sleep(moments.uniform(0, 5))  # the moment is what is tried
    print(f"seed {SEED}: {LOSSES} losses, restarts {counts}", flush=True)
