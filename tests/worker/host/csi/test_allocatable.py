"""Is a driver asked again how many volumes the node can have, as often as it wants, and when there is no place for one?"""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.clients.csi_drivers import CsiDrivers, Driver
from activities.objects.objects import ObjectKind
from activities.volumes.plugin import attaching
from activities.volumes.plugin.volume_type import AttachLimitExceeded
from tests.activities.volumes.csi.csi_node import NAME, Node, NodeWithDriver
from tests.csi.orders import Order, Setup
from worker.host.csi import allocatable
from worker.host.csi.allocatable import keeping_allocatable, update_period

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")
INFO = "NodeGetInfo"


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """Return a node whose loop hardly waits."""
    monkeypatch.setattr(allocatable, "SHORTEST", 0.02)
    monkeypatch.setattr(allocatable, "update_period", lambda one: 0.02 if update_period(one) else None)
    async with NodeWithDriver(tmp_path, Setup()) as made:
        yield made


def asking() -> bool:
    """Report whether a driver is being asked."""
    return any(one.get_name() == f"allocatable of {NAME}" for one in asyncio.all_tasks())


async def said(node: Node, most: int) -> None:
    """Wait until the node knows this number."""
    async with asyncio.timeout(30):
        while node.services.csi.find(NAME).max_volumes != most:  # type: ignore[union-attr]  # noqa: ASYNC110 - a number: there is no event to await
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        pytest.param({"nodeAllocatableUpdatePeriodSeconds": 60}, 60.0, id="wanted"),
        pytest.param({"nodeAllocatableUpdatePeriodSeconds": 1}, 10.0, id="not-too-often"),
        pytest.param({}, None, id="never"),
        pytest.param({"nodeAllocatableUpdatePeriodSeconds": 0}, None, id="zero"),
        pytest.param({"nodeAllocatableUpdatePeriodSeconds": -5}, None, id="negative"),
        pytest.param({"nodeAllocatableUpdatePeriodSeconds": True}, None, id="no-number"),
        pytest.param({"nodeAllocatableUpdatePeriodSeconds": "60"}, None, id="text"),
        pytest.param(None, None, id="no-spec"),
    ],
)
def test_how_often_a_driver_is_asked(spec: Any, seconds: float | None) -> None:
    """By its object."""
    assert update_period({"spec": spec}) == seconds


async def test_a_driver_is_asked_again(node: Node) -> None:
    """And who listens hears of another number only; what is staged stays known."""
    node.driver_object(nodeAllocatableUpdatePeriodSeconds=60)
    heard: list[int] = []
    node.services.csi.on_change(lambda _, driver: heard.append(driver.max_volumes if driver else -1))
    node.services.csi.staged.add((NAME, "vol-1"))
    async with keeping_allocatable(node.services):
        await said(node, 7)
        node.driver.most_volumes = 5
        await said(node, 5)
        count = node.driver.count(INFO)
        while node.driver.count(INFO) < count + 2:  # noqa: ASYNC110 - the driver's file: there is no event to await
            await asyncio.sleep(0.01)
    assert heard == [0, 7, 5]
    assert node.services.csi.staged == {(NAME, "vol-1")}


async def test_a_driver_that_does_not_want_it_is_not_asked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor when there is no place for a volume."""
    monkeypatch.setattr(allocatable, "LOOK", 0.02)
    reads = node.objects.reads
    async with keeping_allocatable(node.services), asyncio.timeout(30):
        while reads.count((ObjectKind.CSI_DRIVERS, "", NAME)) < 3:
            await asyncio.sleep(0.01)
            node.services.csi.exhausted.set(NAME)
    assert node.driver.calls(INFO) == []


async def test_no_place_for_a_volume_asks_at_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for the period, while the pod still waits for a place; then its mount fails."""
    monkeypatch.setattr(attaching, "ATTACHED_WITHIN", timedelta(seconds=0.5))
    monkeypatch.setattr(allocatable, "update_period", lambda one: 3600.0 if update_period(one) else None)
    node.attaching(nodeAllocatableUpdatePeriodSeconds=60)
    node.attachment(attachError={"message": "too many", "errorCode": 8})
    node.report_in_use("vol-1")
    async with keeping_allocatable(node.services):
        while node.driver.count(INFO) == 0:
            with pytest.raises(AttachLimitExceeded, match="too many"):
                await node.mount(node.pod("u1"))
        await said(node, 7)


async def test_a_driver_that_fails_is_asked_again_and_one_that_has_gone_is_not(node: Node) -> None:
    """The number that was known stays meanwhile."""
    node.driver_object(nodeAllocatableUpdatePeriodSeconds=60)
    node.driver.order(INFO, Order(times=2, code="INTERNAL"))
    async with keeping_allocatable(node.services):
        await said(node, 7)
        assert node.driver.count(INFO) > 2
        assert asking()
        driver = node.services.csi.find(NAME)
        assert driver
        node.services.csi.remove(node.services.csi._registered[NAME])
        await asyncio.sleep(0)
        assert not asking()
        await node.services.csi.add(driver)
        assert asking()
    assert not asking()


async def test_an_updated_driver_is_removed_by_what_registered() -> None:
    """Its registration does not know of the update; an update of one that has gone is dropped."""
    drivers, driver = CsiDrivers(), Driver("a", "/a.sock")
    await drivers.add(driver)
    assert drivers.update(driver, now := replace(driver, max_volumes=3))
    assert not drivers.update(driver, replace(driver, max_volumes=4))
    assert drivers.find("a") is now
    drivers.remove(driver)
    assert drivers.find("a") is None
    assert not drivers.update(now, driver)
