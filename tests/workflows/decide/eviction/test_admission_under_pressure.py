"""Which pods does a node refuse while it is under pressure?"""

from collections.abc import Sequence

import pytest

from proto.temporal.eviction.candidates import Candidate
from tests.workflows.decide.eviction.pressed_pods import named
from workflows.decide.eviction.admission import why_refused

BEST_EFFORT, BURSTABLE, CRITICAL = named("a"), named("a", memory="1Mi"), named("a", 2_000_000_000)
MEMORY, DISK, PID = "MemoryPressure", "DiskPressure", "PIDPressure"
TOLERATES = [{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}]
OTHER = [{"key": "node.kubernetes.io/disk-pressure", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("pod", "tolerations", "conditions", "named_conditions"),
    [
        pytest.param(BEST_EFFORT, [], [], "", id="no-pressure"),
        pytest.param(BEST_EFFORT, [], [MEMORY], "MemoryPressure", id="best-effort-for-memory"),
        pytest.param(BEST_EFFORT, TOLERATES, [MEMORY], "", id="one-that-tolerates-it"),
        pytest.param(BEST_EFFORT, OTHER, [MEMORY], "MemoryPressure", id="one-that-tolerates-another"),
        pytest.param(BURSTABLE, [], [MEMORY], "", id="one-with-a-request"),
        pytest.param(BURSTABLE, [], [DISK], "DiskPressure", id="everyone-for-disks"),
        pytest.param(BURSTABLE, [], [PID], "PIDPressure", id="everyone-for-process-ids"),
        pytest.param(
            BURSTABLE, TOLERATES, [PID, DISK, MEMORY], "MemoryPressure DiskPressure PIDPressure", id="for-several"
        ),
        pytest.param(CRITICAL, [], [DISK, MEMORY], "", id="but-no-critical-one"),
    ],
)
def test_refused(
    pod: Candidate, tolerations: Sequence[dict[str, str]], conditions: Sequence[str], named_conditions: str
) -> None:
    """As the eviction manager's Admit."""
    found = why_refused(pod, tolerations, conditions)
    expected = ("Evicted", f"The node had condition: [{named_conditions}]. ") if named_conditions else None
    assert (found and (found.reason, found.message)) == expected
