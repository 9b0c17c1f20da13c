"""What the worker tells for /metrics/probes, written from the tallies that its probe loops keep."""

from collections.abc import Collection
from itertools import accumulate

from activities.probes.result_counts import BOUNDS, ProbedContainer, ProbeResultCounts
from worker.stats.prometheus.exposition import Family, labels, written


def probe_text(tallies: ProbeResultCounts, pod_uids: Collection[str]) -> bytes:
    """Write the probes of these pods, and forget those of all others."""
    tallies.keep(pod_uids)
    total = Family("prober_probe_total", "Probes, by kind and result.", "counter")
    seconds = Family("prober_probe_duration_seconds", "How long probes that succeeded took.", "histogram")
    for probed, tally in tallies.all():
        said = _said(probed)
        for result, count in (("successful", tally.successful), ("failed", tally.failed)):
            if count:
                total.add(count, f'{said},pod_uid="{probed.pod.uid}",result="{result}"')
        if not tally.successful:
            continue
        for bound, count in zip((*map(_bound, BOUNDS), "+Inf"), accumulate(tally.within), strict=True):
            seconds.add(count, f'{said},le="{bound}"', suffix="_bucket")
        seconds.add(tally.seconds, said, suffix="_sum")
        seconds.add(tally.successful, said, suffix="_count")
    return written((total, seconds))


def _bound(bound: float) -> str:
    return f"{bound:g}"


def _said(probed: ProbedContainer) -> str:
    return labels(
        {
            "container": probed.container,
            "namespace": probed.pod.namespace,
            "pod": probed.pod.name,
            "probe_type": probed.kind.value.capitalize(),
        }
    )
