"""Changes of the objects that a pod shows: rules of the state machine in `test_machine`."""

from hypothesis.stateful import precondition, rule

from proto.temporal.pod import Lifecycle
from tests.workflows.decide.operator.operated_pod import OperatedPod
from tests.workflows.decide.volumes.shown_objects import NAME
from workflows.decide.containers.standing import pod_is_done
from workflows.decide.contents import pod_digest
from workflows.decide.volumes.mounts import to_refresh

POLLS = 5
"""After this many comparisons by the poller nothing differs any more."""


class RefreshedPod(OperatedPod):
    """A pod whose ConfigMap is edited at any time."""

    @precondition(lambda self: not self.over)
    @rule()
    def object_changes(self) -> None:
        """The ConfigMap is edited; the hint may come late, twice or never."""
        self.runtime.objects.version += 1
        self.hints.append(self.runtime.objects.hint())

    def settle(self) -> None:
        """Settle, including the poller's comparison once a minute, which replaces lost hints."""
        for _ in range(POLLS):
            super().settle()
            facts = self.observed.volumes
            if self.over or facts is None or NAME not in facts.objects:
                return
            hint = self.runtime.objects.hint()
            if facts.objects[NAME] == hint.versions[NAME] or self.observed.lifecycle is not Lifecycle.SYNC:
                return
            self.hears(hint)
        raise AssertionError("the volumes never show what is there")

    def volumes_show_what_is_there(self) -> None:
        """The newest version and the current pod; the volumes of a finished pod are not compared."""
        objects = self.runtime.objects
        here = self.situation()
        if pod_is_done(here):
            return
        if "app" in self.runtime.mounted:
            assert objects.shown == str(objects.version)
        if "about" in self.runtime.mounted:
            assert objects.told == pod_digest(to_refresh(here))
