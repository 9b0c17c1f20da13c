"""Is what the node decides without a victim told with what was measured?"""

from datetime import timedelta

import pytest

from proto.temporal.eviction.thresholds import EvictionPolicy, Signal
from tests.workflows.decide.eviction.pressed_pods import left, named, threshold
from workflows.decide.eviction.disks import Reclaim
from workflows.decide.eviction.rounds import Facts, Starved
from workflows.decide.node.pressure_decisions import conditions_changed, nobody_to_evict, reclaim_sufficed

MEMORY = threshold(Signal.MEMORY, "100Mi")
DISK = threshold(Signal.NODE_FS, "10%")
PIDS = threshold(Signal.PIDS, "100")
POLICY = EvictionPolicy((MEMORY, DISK, PIDS), timedelta(minutes=5))
SHORT = {Signal.MEMORY: left("50Mi"), Signal.NODE_FS: left("1Mi", "100Mi"), Signal.PIDS: left("50", "32000")}


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        pytest.param((), (), [], id="nothing"),
        pytest.param(("DiskPressure",), ("DiskPressure",), [], id="no-change"),
        pytest.param(
            (),
            ("MemoryPressure", "PIDPressure"),
            [
                "MemoryPressure begins: memory.available is 50Mi of 1Gi, threshold 100Mi",
                "PIDPressure begins: pid.available is 50 of 32k, threshold 100",
            ],
            id="two-begin",
        ),
        pytest.param(
            ("DiskPressure",),
            (),
            ["DiskPressure ends, not observed for 0:05:00: nodefs.available is 1Mi of 100Mi, threshold 10Mi"],
            id="one-ends",
        ),
    ],
)
def test_conditions(before: tuple[str, ...], now: tuple[str, ...], said: list[str]) -> None:
    """With the thresholds that are met; at the end with what there is."""
    assert [one.words for one in conditions_changed(POLICY, before, now, SHORT)] == said


def test_a_condition_whose_signal_is_not_measured() -> None:
    """The runtime may not say where images are."""
    (told,) = conditions_changed(POLICY, ("DiskPressure",), (), {})
    assert told.words == "DiskPressure ends, not observed for 0:05:00: not measured"


def test_room_was_made() -> None:
    """What was removed, and what it gave."""
    starved = Starved(DISK, SHORT[Signal.NODE_FS])
    told = reclaim_sufficed(starved, tuple(Reclaim), {Signal.NODE_FS: left("20Mi", "100Mi")})
    assert told.words == (
        "no pod is evicted for ephemeral-storage: it was enough to delete all unused containers and delete unused images: "
        "before, nodefs.available is 1Mi of 100Mi, threshold 10Mi; now, nodefs.available is 20Mi of 100Mi, threshold 10Mi"
    )


@pytest.mark.parametrize(
    ("facts", "refused", "who"),
    [
        pytest.param(Facts({}), [], "no pod is left that could be", id="no-pods"),
        pytest.param(
            Facts({}, [named("web"), named("dns", 2_000_000_000)]),
            ["default/web rejects it: Finished"],
            "of 2 pods 1 are critical; default/web rejects it: Finished",
            id="critical-and-finished",
        ),
    ],
)
def test_nobody(facts: Facts, refused: list[str], who: str) -> None:
    """Why each of them is spared."""
    told = nobody_to_evict(Starved(MEMORY, SHORT[Signal.MEMORY]), facts, refused)
    assert told.words == f"no pod can be evicted for memory: {who}: memory.available is 50Mi of 1Gi, threshold 100Mi"
