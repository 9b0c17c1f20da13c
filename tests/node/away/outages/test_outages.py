"""Do pods live through outages of Temporal as without them: statuses, restart counts, hooks, containers, and what their histories tell?"""

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.node.away.outages.ledger import Ledger
from tests.node.away.outages.outages_run import OutagesRun, Plan
from tests.node.away.outages.shapes import SHAPES
from tests.node.away.outages.temporal_outages import KEEPING, KINDS
from tests.node.away.outages.verdict import findings
from tests.node.away.stopped_temporal import own_temporal
from tests.node.conftest import QUICK
from tests.node.tempolet_node import TempoletNode, tempolet_node
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

__all__ = ["own_temporal"]  # a fixture
SEED: Final = "OUTAGES_SEED"
"""The variable that repeats a run's choices."""
NUMBER: Final = "OUTAGES"
"""The variable with the number of outages of a long run."""
OUTAGES: Final = 34
PODS: Final = 30


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, own_temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node with a Temporal of its own, whose silence it notices soon."""
    with tempolet_node(tmp_path, containerd, own_temporal, away_after="2s", keys=QUICK) as made:
        yield made


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Keep the account of containers and hooks."""
    with Ledger(tmp_path / "ledger") as made:
        yield made


def live(node: TempoletNode, ledger: Ledger, plan: Plan) -> OutagesRun:
    """Let pods of every shape live as planned, and compare."""
    run = OutagesRun(node, ledger, plan)
    run.run()
    found = findings(run)
    whole = sum(run.is_history_whole(one) for one in run.lives)
    lived = (
        f"{run.away} outages, {len(run.lives)} pods ({whole} with a whole history), {run.switches} switches of a pod"
    )
    run.said(f"seed {plan.seed}: {lived}, {len(found)} findings")
    assert not found, f"seed {plan.seed}:\n" + "\n".join(found)
    return run


def test_without_outages_pods_live_as_is_written_down(
    tmp_path: Path, containerd: Containerd, temporal: TemporalServer, ledger: Ledger
) -> None:
    """Each shape once: what the other tests expect."""
    with tempolet_node(tmp_path, containerd, temporal, keys=QUICK) as node:
        assert live(node, ledger, Plan(0, (), len(SHAPES))).switches == 0


def test_pods_live_through_three_outages_as_without(node: TempoletNode, ledger: Ledger) -> None:
    """A Temporal that is suspended, one that is killed, and one whose network is lost."""
    run = live(node, ledger, Plan(1, ("suspended", "killed", "network"), len(SHAPES), pause=1.0))
    assert run.switches >= len(SHAPES)


@pytest.mark.stress
@pytest.mark.parametrize("kind", ["deleted", "restored"])
def test_pods_live_on_when_temporal_comes_back_with_less(node: TempoletNode, ledger: Ledger, kind: str) -> None:
    """With an empty database, or with one from before."""
    live(node, ledger, Plan(2, (kind, "killed"), len(SHAPES), pause=1.0))


@pytest.mark.stress
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(sorted(KEEPING), id="keeping"),
        pytest.param(sorted(KINDS), id="all"),
    ],
)
def test_thirty_pods_live_through_many_outages(node: TempoletNode, ledger: Ledger, kinds: Sequence[str]) -> None:
    """34 outages, about 1,000 switches of a pod."""
    seed = int(os.environ.get(SEED, "") or random.randrange(1 << 32))
    print(f"{SEED}={seed}")
    rng = random.Random(seed)
    number = int(os.environ.get(NUMBER, "") or OUTAGES)
    outages = [kinds[one % len(kinds)] for one in range(number)]
    rng.shuffle(outages)
    run = live(node, ledger, Plan(seed, outages, PODS))
    assert run.switches > number * PODS // 2
