"""Does the journal hold what a dictionary would, whatever the order of calls, restarts and crashes?"""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from proto.temporal.pod import PodStart
from tests.worker.stand_in.journal.journals import AT, PLACE, SOON, entry, keys_of, start, workflow_id
from worker.stand_in.journal.journal import Journal
from worker.stand_in.journal.reading import JournalReader

UIDS = st.sampled_from(["u1", "u2", "u3"])


@dataclass
class Model:
    """What is to be in the journal of one pod."""

    state: PodStart | None = None
    folded: int = 0
    story: dict[int, int] = field(default_factory=dict)
    """The number of each entry, by position."""


class JournalMachine(RuleBasedStateMachine):
    """Every call, with restarts between them and a torn record after a crash."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.pods: dict[str, Model] = {}
        self.gone: set[str] = set()
        self.numbers = 0
        self.open()

    def open(self) -> None:
        """Start a process on the folder."""
        self.journal = Journal(self.folder, keys_of(self.folder), now=lambda: AT)
        self.recovered = self.journal.read_all()
        self.journal.__enter__()

    def teardown(self) -> None:
        """Remove the folder."""
        self.journal.__exit__()
        shutil.rmtree(self.folder)

    @rule(uid=UIDS, restarts=st.integers(0, 3), fold=st.booleans())
    def keep(self, uid: str, restarts: int, *, fold: bool) -> None:
        """Keep a state, which has all entries or as many as before."""
        pod = self.pods.setdefault(uid, Model())
        if fold and pod.story:
            pod.folded = max(pod.story)
        pod.state = start(uid, restarts=restarts)
        self.gone.discard(uid)
        self.journal.keep(workflow_id(uid), pod.state, PLACE, folded=pod.folded)
        assert self.journal.flush(workflow_id(uid), SOON)

    @rule(uid=UIDS, batched=st.booleans())
    def append(self, uid: str, *, batched: bool) -> None:
        """Append to a pod that is kept."""
        pod = self.pods.get(uid)
        if pod is None:
            return
        self.numbers += 1
        position = self.journal.append(workflow_id(uid), entry(self.numbers), batched=batched)
        assert position > max([pod.folded, *pod.story])
        pod.story[position] = self.numbers

    @rule(uid=UIDS)
    def end_story(self, uid: str) -> None:
        """Tell a story, and remove it."""
        if pod := self.pods.get(uid):
            pod.folded = max([pod.folded, *pod.story])
            assert self.journal.end_story(workflow_id(uid), pod.folded)
            pod.story.clear()
            assert pod.state is not None
            self.journal.keep(workflow_id(uid), pod.state, PLACE)
            assert self.journal.flush(workflow_id(uid), SOON)

    @rule(uid=UIDS)
    def forget(self, uid: str) -> None:
        """Bury a pod."""
        self.journal.forget(workflow_id(uid))
        assert self.journal.flush(workflow_id(uid), SOON)
        self.pods.pop(uid, None)
        self.gone.add(uid)

    @rule(uid=UIDS, torn=st.binary(max_size=60))
    def crash(self, uid: str, torn: bytes) -> None:
        """End the process; of a record that it was appending, any bytes are left."""
        self.journal.__exit__()
        path = self.folder / "away" / uid / "story"
        if path.exists() and self.pods[uid].story:
            with path.open("ab") as file:
                file.write(torn)
        self.open()
        self.is_recovered()

    def is_recovered(self) -> None:
        """Compare what the next process has read."""
        assert self.recovered.unreadable == ()
        assert {one.uid for one in self.recovered.gone.values()} == self.gone
        found = {one.workflow_id: one for one in self.recovered.kept}
        assert set(found) == {workflow_id(uid) for uid in self.pods}
        for uid, pod in self.pods.items():
            kept = found[workflow_id(uid)]
            assert kept.start == pod.state
            assert kept.is_complete
            tail = {position: number for position, number in pod.story.items() if position > kept.folded}
            assert {one.position: one.entry for one in kept.tail.entries} == {
                position: entry(number) for position, number in tail.items()
            }

    @invariant()
    def stories_are_whole(self) -> None:
        """Another process reads every entry that has not been told."""
        reader = JournalReader(self.folder, keys_of(self.folder))
        for uid, pod in self.pods.items():
            found = {one.position: one.entry for one in reader.entries(workflow_id(uid)).entries}
            assert found == {position: entry(number) for position, number in pod.story.items()}


JournalMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestJournal = JournalMachine.TestCase
