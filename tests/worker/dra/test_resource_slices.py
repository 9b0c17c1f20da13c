"""Are the ResourceSlices of a driver that is gone removed, and of no other?"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, cast

import pytest

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.errors import ApiAway
from worker.dra import resource_slices
from worker.dra.resource_slices import ResourceSlices

PATH = "/apis/resource.k8s.io/v1/resourceslices"
NONE, LONG = timedelta(), timedelta(hours=1)


class Api:
    """What is asked of the API server."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failing = 0
        self.called = asyncio.Event()

    async def call(self, method: str, path: str, *, query: Mapping[str, str]) -> Any:
        """Delete a collection."""
        assert (method, path) == ("DELETE", PATH)
        self.called.set()
        if self.failing:
            self.failing -= 1
            raise ApiAway("it is away")
        self.asked.append(query["fieldSelector"])
        return {}


@pytest.fixture
async def api() -> Api:
    """Have an API server."""
    return Api()


def slices(api: Api, usable: Callable[[str], bool], delay: timedelta) -> ResourceSlices:
    """Have the slices of a node."""
    return ResourceSlices(cast("ApiServer", api), "node-1", usable, delay)


async def until_called(api: Api) -> None:
    """Wait for a call, and let who made it go on."""
    await asyncio.wait_for(api.called.wait(), 20)
    await asyncio.sleep(0)


async def test_all_at_the_start_whatever_fails_first(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver has registered yet."""
    monkeypatch.setattr(resource_slices, "_FIRST_PAUSE", 0.0)
    api.failing = 2
    await slices(api, lambda _: False, LONG).wipe("")
    assert api.asked == ["spec.nodeName=node-1"]


async def test_those_of_a_driver_that_stays_away(api: Api) -> None:
    """After the delay, once."""
    found = slices(api, lambda _: False, NONE)
    found.changed("a.test")
    found.changed("a.test")
    await until_called(api)
    assert api.asked == ["spec.nodeName=node-1,spec.driver=a.test"]


async def test_a_driver_that_comes_again_in_time(api: Api) -> None:
    """Its slices stay; so do those of drivers when the process ends."""
    usable = {"b.test"}
    found = slices(api, usable.__contains__, LONG)
    running = asyncio.create_task(found.run())
    await until_called(api)
    found.changed("a.test")
    usable.add("a.test")
    found.changed("a.test")
    found.changed("c.test")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert api.asked == ["spec.nodeName=node-1"]
