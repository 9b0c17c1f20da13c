"""Does a pod live on from the node's own journal after its process was killed, with a story that has all of it?"""

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path

from proto.temporal import names
from proto.temporal.away import EntryKind
from tests.patience import PATIENCE
from tests.worker.stand_in.journal.journals import PLACE, SOON, journal_in
from tests.worker.stand_in.test_stand_in import GOING, phase, plain_pod
from tests.worker.stand_in.world import World
from tests.workflows.conftest import QUICK
from worker.stand_in.in_process_driver import Targets
from worker.stand_in.journal.journal import Journal
from worker.stand_in.journal.kept import Kept
from worker.stand_in.loop_lead import Means
from worker.stand_in.pod_journal import PodJournal
from worker.stand_in.stand_in import StandIn


def in_process(world: World, journal: Journal, kept: Kept | None = None) -> StandIn:
    """Lead the pod by a journal on disk, from what was recovered of it."""
    tail = kept.tail.entries if kept else ()
    folded = tail[-1].position if tail else kept.folded if kept else 0
    targets = Targets(world.snapshots.append, world.running.settled, world.deliver)
    pod_journal = PodJournal(journal, f"pod/{world.node}/default/web/u", PLACE, folded)
    means = Means(world.activities, pod_journal, targets, f"lead {folded}", lambda: datetime.now(UTC))
    start = kept.start if kept else world.start()
    world.led = StandIn(start, means, [one.entry for one in tail])  # type: ignore[arg-type]  # it is a pod's
    return world.led


async def until_ready(world: World, restarts: int) -> None:
    """Wait until a snapshot says that the pod is ready after so many restarts."""
    async with asyncio.timeout(PATIENCE):
        while not any(one.ready and one.restarts == restarts for one in world.snapshots):  # noqa: ASYNC110 - as a reader would
            await asyncio.sleep(0.01)


async def test_a_pod_lives_on_in_the_next_process(tmp_path: Path) -> None:
    """Its hook does not run again, its container is not started again."""
    pod = plain_pod()
    pod["spec"]["containers"][0]["lifecycle"] = {"postStart": {"exec": {"command": ["true"]}}}
    world = World(0, pod, faults=False)
    world.exits, world.pace, world.settings = False, 0.1, QUICK
    with journal_in(tmp_path) as journal:
        lead = asyncio.create_task(in_process(world, journal).lead())
        await until_ready(world, 0)
        lead.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await lead
    world.boot()
    with journal_in(tmp_path) as journal:
        (kept,) = journal.read_all().kept
        stand_in = in_process(world, journal, kept)
        lead = asyncio.create_task(stand_in.lead())
        assert phase(stand_in) == ("Running", "True")
        await stand_in.deliver(names.DELETION_REQUESTED, GOING)
        async with asyncio.timeout(PATIENCE):
            outcome = await lead
        assert journal.flush(stand_in.workflow_id, SOON)
        story = [one.entry for one in journal.entries(stand_in.workflow_id).entries]
    assert (outcome.restarts, outcome.reason) == (0, "ManifestRemoved")
    assert set(world.hooks_run.values()) == {1}
    done = [one.name for one in story if one.kind is EntryKind.COMPLETED]
    assert (done.count(names.START_CONTAINER), done.count(names.RUN_HOOK), done.count(names.STOP_CONTAINER)) == (
        1,
        1,
        1,
    )
    assert [one.name for one in story if one.kind is EntryKind.SIGNALLED] == [names.DELETION_REQUESTED]
