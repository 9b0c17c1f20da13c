"""Does a node keep its conditions when the system time is changed?"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest

from proto.cri.v1 import api_pb2 as cri
from tests.worker.node.object.test_status import FACTS, SETTINGS
from worker.machine.monotonic_clock import monotonic_now
from worker.node.object import own_node
from worker.node.object.status import current_node
from worker.node.runtime import watch as runtime_watch
from worker.node.runtime.watch import RuntimeWatch

SET = timedelta(hours=1)


class Later(datetime):
    """A clock that was set forward by an hour."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]  # gives what arithmetic gives
        """Return its time."""
        return datetime.now(tz) + SET


@pytest.fixture
def set_forward(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Set the clock that a module uses."""

    def forward() -> None:
        for module in (runtime_watch, own_node):
            monkeypatch.setattr(module, "datetime", Later, raising=False)

    return forward


class Runtime:
    """A runtime that is ready."""

    async def abilities(self) -> cri.StatusResponse:
        """Report it."""
        conditions = [cri.RuntimeCondition(type=kind, status=True) for kind in ("RuntimeReady", "NetworkReady")]
        return cri.StatusResponse(status=cri.RuntimeStatus(conditions=conditions))


async def test_a_runtime_that_was_asked_a_moment_ago_is_not_down(set_forward: Callable[[], None]) -> None:
    """Otherwise the node would be NotReady, and its pods without endpoints, until the next poll."""
    turns: list[str] = []
    runtime: Any = Runtime()
    asking = RuntimeWatch(runtime, 50, lambda: turns.append("turned"))
    await asking.poll_status()
    set_forward()
    facts = replace(FACTS, runtime=asking.state, found_at=monotonic_now())
    node, _ = current_node({"metadata": {"name": "n1"}}, SETTINGS, facts, datetime.now(UTC) + SET)
    assert node["status"]["conditions"][-1]["reason"] == "KubeletReady"
    await asking.poll_status()
    assert turns == ["turned"], "ready, once"
