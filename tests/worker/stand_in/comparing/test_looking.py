"""Does Temporal say what the judgement needs: of a run that goes on, has ended, has continued as new, or is not there?"""

import asyncio
from datetime import timedelta

import pytest

from proto.temporal import names
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, client, node, pod_json
from tests.workflows.pod.test_continuing import continued
from tests.workflows.pod.test_hooks import hooked
from worker.host.temporal.first_look import FirstLook
from worker.stand_in.comparing.judgement import Seen, Standing, judge
from worker.stand_in.comparing.looking import Looking
from worker.stand_in.journal.kept import Place
from worker.temporal.call_budget import CallBudget

__all__ = ["client", "node"]  # fixtures


async def places(node: Node, namespace_id: str) -> list[Place]:
    """Return where each decision was that was kept."""
    return [Place(namespace_id, one.run_id, one.length, one.at) for one in node.decided]


async def test_every_decision_is_found_where_it_was_kept(node: Node) -> None:
    """One that was written later has taken the number of another; a run that has ended is closed."""
    looking = Looking(FirstLook(node.client, node.name, CallBudget()))
    namespace_id = await looking.namespace_id()
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await node.delete(handle)
    for place in await places(node, namespace_id):
        seen = await looking.see(handle.id, place)
        assert seen.written
        assert judge(place, namespace_id, seen).standing is Standing.CLOSED
        assert place.at
        before = Place(namespace_id, place.run_id, place.length, seen.written - timedelta(seconds=1))
        assert judge(before, namespace_id, await looking.see(handle.id, before)).standing is Standing.LOST


async def test_a_run_that_has_continued_as_new_is_found(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest one is open, so the workflow goes on; one that Temporal does not have is missed."""
    looking, pod, gate = Looking(FirstLook(node.client, node.name, CallBudget())), hooked("postStart"), asyncio.Event()
    namespace_id = await looking.namespace_id()
    node.runtime.held[names.RUN_HOOK] = gate
    handle = await node.start(pod)
    await node.called(names.RUN_HOOK)
    monkeypatch.setattr("workflows.temporal_driver.SIGNALS_PER_RUN", 3)
    await continued(handle)
    monkeypatch.undo()
    gate.set()
    await node.until(pod, lambda one: one.ready)
    found = await places(node, namespace_id)
    assert len({one.run_id for one in found}) == 2
    for place in found:
        assert judge(place, namespace_id, await looking.see(handle.id, place)).standing is Standing.WHOLE
    lost = Place(namespace_id, "01a20dbc-357a-7ddf-be4d-cf3d9e4a7803", 5)
    assert await looking.see(handle.id, lost) == Seen(length=None)
    assert await looking.see(f"{handle.id}-other", found[0]) == Seen(is_known=False)
    async with asyncio.timeout(PATIENCE):
        await node.delete(node.newest(pod))
