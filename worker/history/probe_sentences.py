"""What a probe's verdict says in a pod's story; asked by `sentences`."""

from proto.temporal.pod import ProbeKind
from proto.temporal.signals import ProbeVerdict


def describe_verdict(verdict: ProbeVerdict) -> str:
    """Say in one line what a probe has found, with its last output when that is bad."""
    output = verdict.message.strip()
    why = f": {output}" if output else ""
    match verdict.probe, verdict.success:
        case ProbeKind.READINESS, True:
            return f"container {verdict.container} is ready"
        case ProbeKind.READINESS, False:
            return f"container {verdict.container} is not ready, its readiness probe failed{why}"
        case probe, True:
            return f"container {verdict.container} passed its {probe.value} probe"
        case probe, _:
            return f"container {verdict.container} failed its {probe.value} probe{why}"
