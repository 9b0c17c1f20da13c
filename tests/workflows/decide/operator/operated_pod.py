"""What operators may do to a pod at any time: rules of the state machine in `test_machine`."""

import copy
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from proto.temporal.operator import AddEphemeralContainer, EvictPod, SetCondition, SkipBackoff, StopPod
from proto.temporal.pod import Lifecycle, PodJson
from proto.temporal.signals import StorageExceeded
from tests.workflows.decide.driven_pod import GATE
from tests.workflows.decide.record.edited_pod import EditedPod
from tests.workflows.decide.situations import IMAGE
from workflows.decide.ending.grace import effective_grace
from workflows.decide.explain.explain import explanation
from workflows.decide.operator.evictions import why_no_eviction
from workflows.decide.operator.operator_stops import stops, why_no_stop
from workflows.decide.operator.skips import waiting_backoffs
from workflows.decide.record import signals
from workflows.decide.steps.pod_actions import is_rereading
from workflows.decide.versions import TIMER_PER_WAIT


class OperatedPod(EditedPod):
    """A pod that operators delete, evict, debug, and whose stops and conditions they set."""

    @precondition(lambda self: not self.over)
    @rule(grace=st.sampled_from([None, 0, 5, 100]), really=st.sampled_from([False, False, True]))
    def deleted(self, grace: int | None, really: bool) -> None:
        """The pod is deleted."""
        if not really:
            return
        self.is_deleted(None if grace is None else timedelta(seconds=grace))

    @precondition(lambda self: not self.over)
    @rule()
    def operator_skips(self) -> None:
        """An operator skips every wait; a forecast changes nothing. During a re-read timers are kept: not every step is asked."""
        before, timers = copy.deepcopy(self.observed), self.waits
        explanation(self.situation(), lambda action: type(action).__name__)
        assert self.observed == before
        signals.apply_signal(self.situation(), SkipBackoff("root@node-1"))
        assert not waiting_backoffs(self.situation())
        self.step()
        keeps = self.behaviour >= TIMER_PER_WAIT and is_rereading(self.situation())
        kept = timers if keeps else ()
        assert self.wake is None or self.wake in kept or "BackOff" not in self.wake.summary

    @precondition(lambda self: not self.over)
    @rule(used_bytes=st.sampled_from([0, 0, 1 << 20, (1 << 20) + 1]))
    def holds_on_disk(self, used_bytes: int) -> None:
        """The worker has measured a volume: exceeding its limit evicts the pod, once."""
        before = self.observed.eviction
        signals.apply_signal(self.situation(), StorageExceeded("local-storage", "data", used_bytes))
        assert self.observed.eviction is before or used_bytes > 1 << 20
        assert before is None or self.observed.eviction is before
        self.step()

    @precondition(lambda self: not self.over)
    @rule(status=st.sampled_from(["True", "False"]))
    def operator_sets_a_condition(self, status: str) -> None:
        """A readiness gate is set to true or false."""
        signals.apply_signal(self.situation(), SetCondition("root@node-1", GATE, status))
        self.step()

    @precondition(lambda self: not self.over)
    @rule(grace=st.sampled_from([None, 0, 5, 100]))
    def operator_stops(self, grace: int | None) -> None:
        """An operator shortens a stop; no stop ever ends later for it."""
        asked = StopPod("root@node-1", None if grace is None else timedelta(seconds=grace))
        if why_no_stop(self.situation(), asked):
            return
        before = effective_grace(self.situation()).over_at
        told = stops(self.situation(), asked)
        self.requested_graces.add((self.now, told.asked))
        signals.apply_signal(self.situation(), asked)
        assert effective_grace(self.situation()).over_at == before - told.sooner <= before
        self.step()

    @precondition(lambda self: not self.over and len(self.runtime.ephemeral) < 3)
    @rule(
        into=st.sampled_from(["", "main0", "init0", "side0"]), mounts=st.sampled_from(["", "", "data", "app", "tool"])
    )
    def operator_looks_in(self, into: str, mounts: str) -> None:
        """An operator adds an ephemeral container, perhaps with a target, perhaps with a volume that no other uses."""
        look: PodJson = {"name": f"debug{len(self.runtime.ephemeral)}", "image": IMAGE, "targetContainerName": into}
        if mounts in [one["name"] for one in self.source["spec"].get("volumes", ())]:
            look["volumeMounts"] = [{"name": mounts, "mountPath": "/look"}]
        self.add_ephemeral_container(AddEphemeralContainer("root@node-1", look))

    @precondition(lambda self: not self.over)
    @rule(grace=st.sampled_from([None, 0, 5, 100]), really=st.sampled_from([False, False, True]))
    def evicted(self, grace: int | None, really: bool) -> None:
        """The node evicts the pod; a finished or terminating pod is not affected."""
        asked = EvictPod("root@node-1", "Evicted", "", None if grace is None else timedelta(seconds=grace))
        if not really or why_no_eviction(self.situation(), asked):
            return
        assert not self.final_phase
        signals.apply_signal(self.situation(), asked)
        self.step()
        assert self.observed.lifecycle is not Lifecycle.SYNC
