"""Listings and edits by the pod's source: rules and invariants of the state machine in `test_machine`."""

import copy
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from proto.kubernetes.container_hash import container_hash
from proto.temporal.resources import PendingResize, ResizeVerdict
from proto.temporal.signals import PodListed
from tests.workflows.decide.driven_pod import DrivenPod
from tests.workflows.decide.situations import IMAGE
from workflows.decide.containers.readiness import is_started
from workflows.decide.record.listing import without_ephemeral


class EditedPod(DrivenPod):
    """A pod whose source sometimes lists it again or edits it."""

    def pick(self, data: st.DataObject, names: list[Any]) -> Any:
        """Choose one of these."""
        return data.draw(st.sampled_from(sorted(names, key=repr)))

    @rule()
    def listed_again(self) -> None:
        """The source lists the pod once more."""
        if self.over:
            self.start_over()
            return
        self.hears(PodListed("file"))

    @precondition(lambda self: not self.over)
    @rule(label=st.sampled_from("abc"), deadline=st.sampled_from([None, None, 1, 20, 400]))
    def edited(self, label: str, deadline: int | None) -> None:
        """The source changes a label, perhaps the deadline: the pod continues, or is replaced."""
        listed = without_ephemeral(self.source)
        metadata, spec = {**listed["metadata"], "labels": {"app": label}}, dict(listed["spec"])
        if deadline is not None:
            spec["activeDeadlineSeconds"] = deadline
        self.is_edited({"metadata": metadata, "spec": spec})

    @precondition(lambda self: not self.over)
    @rule(data=st.data(), image=st.sampled_from([IMAGE, "busybox:2"]))
    def image_changes(self, data: st.DataObject, image: str) -> None:
        """The source changes a container's image."""
        changed = copy.deepcopy(without_ephemeral(self.source))
        spec = changed["spec"]
        one = self.pick(data, [*spec.get("initContainers", ()), *spec["containers"]])
        one["image"] = image
        self.is_edited(changed)

    @precondition(lambda self: not self.over)
    @rule(data=st.data(), limit=st.sampled_from(["64Mi", "96Mi", "256Mi"]), decided=st.booleans())
    def resized(self, data: st.DataObject, limit: str, *, decided: bool) -> None:
        """The source changes the memory limit of one container; the node has granted it, or an earlier release listed it."""
        spec = copy.deepcopy(without_ephemeral(self.source)["spec"])
        one = self.pick(data, [*spec.get("initContainers", ()), *spec["containers"]])
        one["resources"]["limits"]["memory"] = limit
        self.is_edited({"metadata": self.source["metadata"], "spec": spec}, ResizeVerdict() if decided else None)

    @precondition(lambda self: not self.over)
    @rule(generation=st.integers(1, 3))
    def resize_deferred(self, generation: int) -> None:
        """The source asks for more than the node has: the pod is listed with what it has."""
        listed = without_ephemeral(self.source)
        pending = PendingResize("Deferred", "no room", generation, "OutOfmemory")
        metadata = {**listed["metadata"], "generation": generation}
        self.is_edited({"metadata": metadata, "spec": listed["spec"]}, ResizeVerdict(pending))

    def nothing_is_outdated(self) -> None:
        """Every container that keeps running has the spec's image; a sidecar that has not started is not stopped yet."""
        here = self.situation()
        wanted = {one.name: one for one in here.all_containers if one.name not in here.init_names}
        wanted |= {
            one.name: one for one in here.init_containers if one.name in here.sidecar_names and is_started(here, one)
        }
        for one in self.runtime.live():
            if one.name in wanted:
                assert one.hash == container_hash(one.name, wanted[one.name].image or ""), "an outdated one lives on"
