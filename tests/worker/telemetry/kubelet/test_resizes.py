"""How long did a resize take, from its first step to its last?"""

from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry

from worker.telemetry.kubelet.resizes import ResizeCounts, Span

NAME = "kubelet_pod_resize_duration_milliseconds"


class Counted:
    """The counts, and their values."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.counts = ResizeCounts(self.registry)

    def took(self, success: str) -> tuple[float, float]:
        """Return how many resizes were counted, and their milliseconds."""
        number, total = (
            self.registry.get_sample_value(f"{NAME}_{one}", {"success": success}) for one in ("count", "sum")
        )
        return number or 0, total or 0


def span(first: int, last: int) -> Span:
    """Return a span in milliseconds."""
    noon = datetime(2026, 11, 28, 12, tzinfo=UTC)
    return noon + timedelta(milliseconds=first), noon + timedelta(milliseconds=last)


def test_all_steps_are_one_resize() -> None:
    """Of each pod; it is over when the pod says so, and counted once."""
    counted = Counted()
    counted.counts.ended("a")
    counted.counts.step("a", span(0, 10), failed=False)
    counted.counts.step("b", span(5, 6), failed=False)
    counted.counts.step("a", span(20, 45), failed=False)
    assert counted.took("true") == (0, 0)
    counted.counts.ended("a")
    counted.counts.ended("a")
    assert counted.took("true") == (1, 45)


def test_a_step_that_fails_ends_the_attempt() -> None:
    """The next try is measured by itself; of a pod that ends, nothing is counted."""
    counted = Counted()
    counted.counts.step("a", span(0, 10), failed=False)
    counted.counts.step("a", span(20, 30), failed=True)
    assert counted.took("false") == (1, 30)
    counted.counts.step("a", span(100, 107), failed=False)
    counted.counts.ended("a")
    assert counted.took("true") == (1, 7)
    counted.counts.step("a", span(200, 207), failed=False)
    counted.counts.forget("a")
    counted.counts.ended("a")
    assert counted.took("true") == (1, 7)
