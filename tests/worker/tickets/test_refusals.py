"""Are refusals counted each time, told each time that their number has doubled, and remembered for a bounded number of workflows?"""

from types import SimpleNamespace
from typing import Any

import structlog

from worker.telemetry.metrics import Metrics
from worker.tickets.gate import _COUNTED, Refusals


def attempt(workflow_id: str) -> Any:
    """Return what is known of an attempt."""
    return SimpleNamespace(workflow_id=workflow_id, asker=("r", 0), key="container/web", name="StartContainer")


def test_a_flood_is_counted_and_told_a_few_times() -> None:
    """The log names workflow, run and activity."""
    metrics, told = Metrics("n"), list[tuple[str, str]]()
    refusals = Refusals(metrics.activity_refused, lambda workflow_id, run_id: told.append((workflow_id, run_id)))
    with structlog.testing.capture_logs() as logged:
        for _ in range(1000):
            refusals.add(attempt("pod/n/default/web/u1"), "it shows no ticket")
    assert b"tempolet_refused_activities_total 1000.0" in metrics.render()
    assert set(told) == {("pod/n/default/web/u1", "r")}
    assert [one["refused"] for one in logged] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert logged[0]["workflow"] == "pod/n/default/web/u1"
    assert (logged[0]["run"], logged[0]["activity"]) == ("r", "container/web")


def test_many_workflows_take_a_bounded_space() -> None:
    """The ones that were refused longest ago are forgotten."""
    refusals = Refusals(lambda: None, lambda *_: None)
    with structlog.testing.capture_logs():
        for number in range(_COUNTED * 2):
            refusals.add(attempt(f"pod/{number}"), "it shows no ticket")
    assert len(refusals._by_workflow) == _COUNTED
