"""Renders /metrics/probes from the tallies of the worker's probe loops."""

from collections.abc import Collection
from itertools import accumulate

from activities.probes.result_counts import BOUNDS, ProbedContainer, ProbeResultCounts
from worker.telemetry.exposition import Family, labels, render


def probe_text(tallies: ProbeResultCounts, pod_uids: Collection[str]) -> bytes:
    """Render the probes of these pods, and drop the tallies of all others."""
    tallies.keep(pod_uids)
    total = Family("prober_probe_total", "Probes, by kind and result.", "counter")
    seconds = Family("prober_probe_duration_seconds", "How long probes that succeeded took.", "histogram")
    for probed, tally in tallies.all():
        labelled = _labels(probed)
        for result, count in (("successful", tally.successful), ("failed", tally.failed)):
            if count:
                total.add(count, f'{labelled},pod_uid="{probed.pod.uid}",result="{result}"')
        if not tally.successful:
            continue
        for bound, count in zip((*map(_bound, BOUNDS), "+Inf"), accumulate(tally.within), strict=True):
            seconds.add(count, f'{labelled},le="{bound}"', suffix="_bucket")
        seconds.add(tally.seconds, labelled, suffix="_sum")
        seconds.add(tally.successful, labelled, suffix="_count")
    return render((total, seconds))


def _bound(bound: float) -> str:
    return f"{bound:g}"


def _labels(probed: ProbedContainer) -> str:
    return labels(
        {
            "container": probed.container,
            "namespace": probed.pod.namespace,
            "pod": probed.pod.name,
            "probe_type": probed.kind.value.capitalize(),
        }
    )
