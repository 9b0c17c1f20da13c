"""Are probes counted as the kubelet counts them, for as long as their pod is here?"""

from prometheus_client.parser import text_string_to_metric_families

from activities.probes.result_counts import BOUNDS, ProbeResultCounts
from proto.temporal.pod import PodKey, ProbeKind
from worker.telemetry.probe_metrics import probe_text

WEB = PodKey("default", "web", "u1")
WHERE = {"namespace": "default", "pod": "web", "container": "main", "probe_type": "Liveness"}


def samples(result_counts: ProbeResultCounts, *uids: str) -> dict[tuple[str, str], float]:
    """Read the text back: by name, and by result or bound."""
    found = {}
    for family in text_string_to_metric_families(probe_text(result_counts, uids).decode()):
        for sample in family.samples:
            assert WHERE.items() <= sample.labels.items()
            found[sample.name, sample.labels.get("result") or sample.labels.get("le", "")] = sample.value
    return found


def test_answers_are_counted_by_result_and_successes_by_time() -> None:
    """Of a failure only that it was one."""
    result_counts = ProbeResultCounts()
    counts = result_counts.of(WEB, "main", ProbeKind.LIVENESS)
    for seconds in (0.005, 0.02, 20.0):
        counts.count(seconds, success=True)
    counts.count(0.02, success=False)
    told = samples(result_counts, "u1")
    assert told["prober_probe_total", "successful"] == 3
    assert told["prober_probe_total", "failed"] == 1
    assert told["prober_probe_duration_seconds_count", ""] == 3
    assert told["prober_probe_duration_seconds_sum", ""] == 20.025
    buckets = [told["prober_probe_duration_seconds_bucket", f"{bound:g}"] for bound in BOUNDS]
    assert buckets == [1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    assert told["prober_probe_duration_seconds_bucket", "+Inf"] == 3


def test_a_restarted_container_goes_on_with_its_numbers() -> None:
    """They are the probe's, not the instance's."""
    result_counts = ProbeResultCounts()
    result_counts.of(WEB, "main", ProbeKind.LIVENESS).count(1, success=True)
    result_counts.of(WEB, "main", ProbeKind.LIVENESS).count(1, success=True)
    assert samples(result_counts, "u1")["prober_probe_total", "successful"] == 2


def test_a_pod_that_is_gone_is_forgotten_by_itself() -> None:
    """A node whose metrics nobody reads would keep the probes of all its pods."""
    result_counts = ProbeResultCounts()
    result_counts.of(WEB, "main", ProbeKind.LIVENESS).count(1, success=True)
    result_counts.forget("another")
    assert list(result_counts.all())
    result_counts.forget(WEB.uid)
    assert not list(result_counts.all())


def test_what_is_gone_is_told_no_more() -> None:
    """Nor are probes without a result."""
    result_counts = ProbeResultCounts()
    result_counts.of(WEB, "main", ProbeKind.READINESS)
    assert samples(result_counts, "u1") == {}
    result_counts.of(WEB, "main", ProbeKind.LIVENESS).count(1, success=True)
    assert samples(result_counts, "u2") == {}
    assert samples(result_counts, "u1") == {}
