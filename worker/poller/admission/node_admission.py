"""Whether this node admits a new pod beside the pods that it has admitted, and who is stopped for it.

Asked by `manifest_pods` and `api_pods` when a pod's workflow is started for the first time; a pod with an open workflow
stays admitted, also after a restart of the poller. Asked by `resizes`, too, whether there is room for what a pod asks for
later, and to stop pods for a critical one. The rules are pure (`workflows/decide/eviction/admission.py` and `preemption.py`,
`workflows/decide/machine_abilities.py`, `workflows/decide/node/node_admission.py`, `supported_cluster.py`); this module collects the pods
that count and the Node, and asks in the kubelet's order (pkg/kubelet/kubelet.go NewMainKubelet).

One preemption is carried out at a time, for a new pod or for a resize. Meanwhile pods that fit are admitted, and one that does not fit waits and is
judged again: the kubelet, too, would look at it only afterwards.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import structlog

from proto.kubernetes.resources.quantity import ZERO
from proto.pod_snapshot import is_terminating
from proto.temporal.pod import NodeSettings, PodJson
from proto.temporal.pod_inputs import Rejected
from worker.poller.admission.exclusive_hardware import ExclusiveHardware
from worker.poller.admission.preemptions import Preemptions
from worker.poller.manifests.gated_fields import fields_of_gates_off
from worker.poller.runtime.known_pods import KnownPods
from worker.settings.kubelet.feature_gates import FeatureGates
from workflows.decide.eviction.preemption import Preemption, Reason, first_reason
from workflows.decide.machine_abilities import after_resources, before_resources
from workflows.decide.manifest.fields.supported_cluster import unsupported_fields
from workflows.decide.node.node_admission import Footprint, NodeFacts, footprint, may_be_outdated, reasons_against

UNSUPPORTED: Final = "PodFeatureUnsupported"
"""The kubelet's reason for a pod that needs a feature the node does not have (pkg/kubelet/lifecycle/handlers.go)."""
UNEXPECTED: Final = "UnexpectedAdmissionError"
MachineRules = Callable[[PodJson, NodeSettings], Iterator[Rejected]]

_log: Final = structlog.get_logger(__name__)


class Node(Protocol):
    """Knows our Node."""

    async def read(self) -> None:
        """Read it anew."""

    def facts(self) -> NodeFacts:
        """Return what is known."""


class NodeAdmission:
    """Remembers which pods were admitted."""

    def __init__(  # noqa: PLR0913 - what is known of the node, of its pods, and what may be done about them
        self,
        node: Node,
        known: KnownPods,
        gates: FeatureGates,
        present: Callable[[], Mapping[str, PodJson]],
        *,
        settings: NodeSettings,
        under_pressure: Callable[[PodJson], Rejected | None],
        preemptions: Preemptions,
    ) -> None:
        """Take the Node, the worker's snapshots, and a function that returns all pods listed here, by uid, as they are granted.

        `settings` has what the machine can do, `under_pressure` says why the node refuses a pod because of its pressure.
        """
        self._settings, self._under_pressure, self._preemptions = settings, under_pressure, preemptions
        self.in_use: Callable[[str, PodJson], PodJson] = lambda _, pod: pod
        """Returns a pod with what it still has while its resize is carried out."""
        self.hardware: ExclusiveHardware | None = None
        """Asks for hardware; None: this node gives none to one pod alone."""
        self._node, self._known, self._gates, self._present = node, known, gates, present
        self._taken: set[str] = set()
        self._refused: set[str] = set()
        self._footprints: dict[str, tuple[PodJson, Footprint]] = {}
        self.preempting = asyncio.Lock()
        """Held while pods are stopped for another one."""
        self._resized: dict[str, PodJson] = {}
        """Pods for whose resize others are stopped, with what they ask for."""

    async def admit(self, pod: PodJson, *, static: bool = False) -> Rejected | None:
        """Return why the pod is rejected; None admits it."""
        uid, name = pod["metadata"]["uid"], f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        try:
            why = self._under_pressure(pod)
            why = why or self._beyond_the_machine(pod, before_resources)
            why = why or await self._without_hardware(pod)
            why = why or await self._why_not(pod, static=static)
            why = why or self._beyond_the_machine(pod, after_resources)
            why = why or self._unsupported(pod, static=static)
        except Exception as error:  # noqa: BLE001 - other pods must not be affected
            _log.exception("could not decide on the admission of a pod; please report this", pod=name, podUID=uid)
            why = Rejected(UNEXPECTED, f"{type(error).__name__}: {error}"[:500])
        if why is None:
            self._taken.add(uid)
        else:
            self._taken.discard(uid)
            self._refused.add(uid)
            _log.warning("this node rejects a pod", pod=name, podUID=uid, reason=why.reason, err=why.message)
        return why

    def is_advertised(self, resource: str) -> bool:
        """Report whether the Node says that it has some of a resource."""
        return self._node.facts().allocatable.get(resource, ZERO) > ZERO

    def judge_resize(self, pod: PodJson, *, static: bool) -> Rejected | Preemption | None:
        """Return why a pod cannot have the resources that it asks for, or who is stopped for it; the Node is not read anew for a resize."""
        if why := self._under_pressure(pod):
            return why
        if not (reasons := self._reasons_now(pod, static=static)):
            return None
        snapshot = self._known.of(pod["metadata"]["uid"])
        if snapshot and is_terminating(snapshot):  # nobody is stopped for a pod that is being stopped itself
            return first_reason(reasons, critical=False)
        found = self._decide(pod, reasons)
        return found.rejected or found

    async def preempt_for_resize(self, pod: PodJson, found: Preemption) -> None:
        """Stop pods, and return when they are gone; meanwhile the resized pod counts with what it asks for. Call it with `preempting` held."""
        uid = pod["metadata"]["uid"]
        self._resized[uid] = pod
        try:
            await self._preemptions.carry_out(pod, found)
        finally:
            del self._resized[uid]

    async def _why_not(self, pod: PodJson, *, static: bool) -> Rejected | None:
        if self._runs(pod["metadata"]["uid"]) or not await self._reasons(pod, static=static):
            return None
        async with self.preempting:
            if reasons := await self._reasons(pod, static=static):
                return await self._preempted_for(pod, reasons, static=static)
        return None

    async def _preempted_for(self, pod: PodJson, reasons: Sequence[Reason], *, static: bool) -> Rejected | None:
        """Stop pods for a critical one, or return why it is rejected; its room is taken from now on."""
        found = self._decide(pod, reasons)
        if why := found.rejected or self._unsupported(pod, static=static):  # else they were stopped in vain
            return why
        self._taken.add(pod["metadata"]["uid"])
        await self._preemptions.carry_out(pod, found)
        return None

    def _decide(self, pod: PodJson, reasons: Sequence[Reason]) -> Preemption:
        running = [one for uid, one in self._others(pod).items() if not self._known.is_over(uid)]
        return self._preemptions.decide(pod, running, reasons)

    def _beyond_the_machine(self, pod: PodJson, rules: MachineRules) -> Rejected | None:
        """Return what the machine cannot do for a pod; one that runs stays admitted."""
        return None if self._runs(pod["metadata"]["uid"]) else next(rules(pod, self._settings), None)

    async def _without_hardware(self, pod: PodJson) -> Rejected | None:
        """Give a pod the hardware that it needs alone, or return why it cannot have it."""
        uid = pod["metadata"]["uid"]
        if self.hardware is None or self._runs(uid):
            return None
        return await self.hardware.why_refused(pod, lambda: self._counting() - {uid})

    def _counting(self) -> set[str]:
        """Return the uids of the pods that may have hardware: listed and not refused, or begun, and not over."""
        uids = {uid for uid in self._present() if uid not in self._refused} | set(self._known.folders())
        return {uid for uid in uids if not self._known.is_over(uid)}

    def _unsupported(self, pod: PodJson, *, static: bool) -> Rejected | None:
        """Return which fields of a pod the node does not have; a static pod's were refused with its manifest."""
        if static:
            return None
        found = (*unsupported_fields(pod), *fields_of_gates_off(pod["spec"], self._gates))
        return Rejected(UNSUPPORTED, "; ".join(found)) if found else None

    async def _reasons(self, pod: PodJson, *, static: bool) -> tuple[Reason, ...]:
        """Judge it by what is known of the Node, and once more by the newest if only its labels are against it."""
        reasons = self._reasons_now(pod, static=static)
        if may_be_outdated(reasons):
            await self._node.read()
            reasons = self._reasons_now(pod, static=static)
        return reasons

    def _reasons_now(self, pod: PodJson, *, static: bool) -> tuple[Reason, ...]:
        """Judge it beside all admitted pods; only if that is too much, find out which of them have ended."""
        node = self._node.facts()
        if self.hardware:
            node = self.hardware.without_devices(node)
        found = {
            uid: self._footprint(uid, self.in_use(uid, self._resized.get(uid, one)))
            for uid, one in self._others(pod).items()
        }
        if not reasons_against(pod, node, list(found.values()), static=static):
            return ()
        running = [one for uid, one in found.items() if not self._known.is_over(uid)]
        return reasons_against(pod, node, running, static=static)

    def _others(self, pod: PodJson) -> dict[str, PodJson]:
        """Return the other pods that were admitted, by uid; pods that are listed no more are forgotten."""
        present = self._present()
        for remembered in (self._taken, self._refused, self._footprints.keys()):
            for uid in [uid for uid in remembered if uid not in present]:
                self._forget(uid)
        return {uid: one for uid, one in present.items() if uid != pod["metadata"]["uid"] and self._was_taken(uid)}

    def _runs(self, uid: str) -> bool:
        """Report whether it began before, though it is not known yet that its workflow is open: it stays admitted."""
        return self._known.of(uid) is not None and not self._known.is_over(uid)

    def _was_taken(self, uid: str) -> bool:
        return uid in self._taken or (uid not in self._refused and self._known.of(uid) is not None)

    def _footprint(self, uid: str, pod: PodJson) -> Footprint:
        known = self._footprints.get(uid)
        if known is None or known[0] is not pod:
            known = self._footprints[uid] = (pod, footprint(pod))
        return known[1]

    def _forget(self, uid: str) -> None:
        self._taken.discard(uid)
        self._refused.discard(uid)
        self._footprints.pop(uid, None)
