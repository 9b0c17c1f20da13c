"""Which containers are probed, and what a failed probe does.

Probing is one long action for each instance of a container (`ProbeContainer`), which signals when a verdict changes.
`containers/readiness.py` says what a verdict means for started and ready. Here a failed liveness or startup probe stops
the container; an ordinary restart follows (kuberuntime_manager.go computePodActions).
"""

from collections.abc import Iterator

from kubernetes.client.models.v1_container import V1Container

from proto.kubernetes.grace_seconds import grace_of_seconds
from proto.temporal.activities.requests import ProbeContainer, StopContainer
from proto.temporal.pod import ProbeFact, ProbeKind
from proto.temporal.signals import ProbeVerdict
from workflows.decide.actions import Action, Wake
from workflows.decide.containers.init_containers import policy_of
from workflows.decide.containers.readiness import probe_of
from workflows.decide.containers.restart import RestartPolicy, failed_probe, policy_for
from workflows.decide.containers.standing import Standing, standing, stops_outdated
from workflows.decide.ending.grace import Grace, bounded, pod_grace, stop_request
from workflows.decide.hooks import hooks
from workflows.decide.keys import container_key
from workflows.decide.situation import Situation, unless_backing_off
from workflows.decide.slices import probe_slice


def probe_containers(situation: Situation) -> Iterator[Action | Wake]:
    """Probe every container that runs, has probes and has started; stop one whose liveness or startup probe failed."""
    sidecars = [one for one in situation.init_containers if one.name in situation.sidecar_names]
    for container in (*sidecars, *situation.containers):
        if not any(probe_of(container, kind) for kind in ProbeKind):
            continue
        if standing(situation, container) is not Standing.UP or container_key(container.name) in situation.busy:
            continue
        if hooks.is_starting(situation, container) or stops_outdated(situation, container):
            continue
        failed = failed_probe(situation.facts(container.name))
        if failed is not None:
            yield from hooks.stop(situation, stop_failed(situation, container, failed))
        else:
            yield from unless_backing_off(situation, probe(situation, container))


def probe(situation: Situation, container: V1Container) -> ProbeContainer:
    """Return the request that probes a container's newest instance."""
    facts, sandbox = situation.facts(container.name), situation.observed.sandbox
    ips = situation.settings.host_ips if situation.spec.host_network else sandbox.ips if sandbox else ()
    return ProbeContainer(
        pod=situation.key,
        name=container.name,
        container_id=facts.container_id,
        container=probe_slice(situation.source, container.name),
        pod_ip=ips[0] if ips else "",
        started_at=facts.started_at,
        known=dict(facts.probes),
    )


def stop_failed(situation: Situation, container: V1Container, failed: ProbeKind) -> StopContainer:
    """Stop a container for its probe; the probe's own grace period overrides the pod's (kuberuntime_container.go)."""
    asked = probe_of(container, failed)
    own = asked.termination_grace_period_seconds if asked else None
    grace = pod_grace(situation.spec, None) if own is None else bounded(grace_of_seconds(own))
    sidecar = container.name in situation.sidecar_names
    subject = "Init container" if sidecar else "Container"
    silent = sidecar or policy_for(container, policy_of(situation)) is RestartPolicy.NEVER
    again = "" if silent else ", will be restarted"
    reason = f"{subject} {container.name} failed {failed.value} probe{again}"
    return stop_request(situation, container.name, reason, Grace(grace, situation.now))


def verdict_reached(situation: Situation, verdict: ProbeVerdict) -> None:
    """Record a probe's verdict, unless its instance is not the newest or has ended."""
    facts = situation.observed.containers.get(verdict.container)
    if facts is None or facts.container_id != verdict.container_id or facts.exit is not None:
        return
    known = facts.probes.get(verdict.probe)
    if known is None or known.sequence < verdict.sequence:
        facts.probes[verdict.probe] = ProbeFact(verdict.success, verdict.message, verdict.sequence, situation.now)
