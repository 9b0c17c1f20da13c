"""Are claims prepared once for each pod and undone with the last, whatever drivers do, and does the file know of all of them?"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activities.clients.dra import dra_plugin
from activities.clients.dra.dra_drivers import DRA_PLUGIN, DraDrivers
from activities.clients.plugins.kinds import register
from activities.dra.services import ResourcesRefused
from proto.dra.claims import Claim
from proto.dra.v1 import api_pb2 as api
from proto.pod_snapshot import PodSnapshot
from proto.temporal.activities.claims import ClaimedDevice, PreparedResources
from proto.temporal.pod import PodKey
from tests.activities.clients.dra.serving import NAME, FaultyPlugin, prepared, serving_plugin
from worker.dra.claim_manager import ClaimManager, load_accounts
from worker.dra.of_this_node import is_without_claims
from worker.settings.kubelet.configuration import ConfigurationRefused
from workflows.decide.claims.accounts import Accounts, ClaimAccount
from workflows.decide.claims.checkpoint import STATE_FILE

WEB, OTHER = PodKey("default", "web", "uid-web"), PodKey("default", "other", "uid-other")
PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"


def using(pod: PodKey, *claims: str) -> dict[str, Any]:
    """Write a pod that uses claims."""
    return {
        "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "spec": {"resourceClaims": [{"name": one, "resourceClaimName": one} for one in claims]},
    }


class Cluster:
    """The claims in the API."""

    def __init__(self) -> None:
        self.uids: dict[str, str] = {}
        self.drivers: dict[str, tuple[str, ...]] = {}

    async def read(self, namespace: str, name: str) -> Mapping[str, Any]:
        """Read a claim that is reserved for both pods."""
        if name == "missing":
            raise ResourcesRefused("fetch ResourceClaim missing: not found")
        results = [{"driver": one} for one in self.drivers.get(name, (NAME,))]
        return {
            "metadata": {"namespace": namespace, "name": name, "uid": self.uids.get(name, f"uid-{name}")},
            "status": {
                "reservedFor": [{"uid": WEB.uid}, {"uid": OTHER.uid}],
                "allocation": {"devices": {"results": results}},
            },
        }


class Scene:
    """A node with one driver."""

    def __init__(self, root: Path, plugin: FaultyPlugin, drivers: DraDrivers) -> None:
        self.root, self.plugin, self.drivers, self.cluster = root, plugin, drivers, Cluster()
        self.operations: list[tuple[str, bool]] = []
        self.used: dict[str, int] = {}
        self.manager = self.restarted()

    def operated(self, operation: str, failed: bool, _: float) -> None:
        """Count it."""
        self.operations.append((operation, failed))

    def called(self, *_: object) -> None:
        """Ignore it."""

    def in_use(self, counts: Mapping[str, int]) -> None:
        """Take the newest."""
        self.used = dict(counts)

    def restarted(self) -> ClaimManager:
        """Begin anew with what the file says."""
        self.manager = ClaimManager(
            self.root,
            self.drivers,
            self.cluster.read,
            load_accounts(self.root),
            counts=self,
        )
        return self.manager

    def on_disk(self) -> dict[str, set[str]]:
        """Return the pods of each claim, by the file."""
        return {one.claim.name: set(one.pods) for one in load_accounts(self.root).values()}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """Have a node with one driver."""
    plugin, drivers = FaultyPlugin(), DraDrivers()
    async with AsyncExitStack() as running:
        socket = await running.enter_async_context(serving_plugin(tmp_path / "d", plugin))
        await register(socket, {DRA_PLUGIN: drivers})
        running.push_async_callback(drivers.close)
        yield Scene(tmp_path, plugin, drivers)


async def test_a_pod_with_two_claims(scene: Scene) -> None:
    """One call for both, and one to undo them; a container gets the devices of its claims."""
    pod = using(WEB, "a", "b")
    told = PreparedResources(tuple(ClaimedDevice(one, NAME, "pool", one, ("r",)) for one in ("a", "b")))
    assert await scene.manager.prepare(WEB, pod) == told
    container = {"name": "c", "resources": {"claims": [{"name": "b", "request": "r"}]}}
    assert scene.manager.cdi_devices(pod, container) == ("t.test/c=b",)
    assert scene.used == {"<any>": 2, NAME: 2}
    assert await scene.manager.prepare(WEB, pod) == told
    await scene.manager.unprepare(WEB.uid)
    await scene.manager.unprepare(WEB.uid)
    assert scene.plugin.asked == [(PREPARE, ["a", "b"]), (UNPREPARE, ["a", "b"])]
    assert scene.on_disk() == {}
    assert scene.operations == [("PrepareResources", False)] * 2 + [("UnprepareResources", False)] * 2
    with pytest.raises(ValueError, match="unable to get claim info for ResourceClaim b"):
        scene.manager.cdi_devices(pod, container)


async def test_a_shared_claim_is_undone_with_its_last_pod(scene: Scene) -> None:
    """And prepared once."""
    await asyncio.gather(
        scene.manager.prepare(WEB, using(WEB, "a")), scene.manager.prepare(OTHER, using(OTHER, "a", "b"))
    )
    assert scene.on_disk() == {"a": {"uid-web", "uid-other"}, "b": {"uid-other"}}
    assert sum("a" in claims for _, claims in scene.plugin.asked) == 1
    scene.plugin.asked.clear()
    await scene.manager.unprepare(WEB.uid)
    assert scene.plugin.asked == []
    assert scene.on_disk() == {"a": {"uid-other"}, "b": {"uid-other"}}
    await scene.manager.unprepare(OTHER.uid)
    assert scene.plugin.asked == [(UNPREPARE, ["a", "b"])]


async def test_a_restart_in_between(scene: Scene) -> None:
    """Drivers are asked again, containers get their devices meanwhile, and all is undone once."""
    pod, container = using(WEB, "a"), {"name": "c", "resources": {"claims": [{"name": "a"}]}}
    await scene.manager.prepare(WEB, pod)
    manager = scene.restarted()
    assert manager.cdi_devices(pod, container) == ("t.test/c=a",)
    assert scene.used == {"<any>": 0}
    await manager.prepare(WEB, pod)
    await scene.restarted().unprepare(WEB.uid)
    assert scene.plugin.asked == [(PREPARE, ["a"]), (PREPARE, ["a"]), (UNPREPARE, ["a"])]
    assert scene.on_disk() == {}


async def test_what_died_while_a_driver_was_asked_is_undone(scene: Scene) -> None:
    """The claim is on disk before the driver is asked: nobody knows what it has done."""
    scene.plugin.hangs = True
    preparing = asyncio.create_task(scene.manager.prepare(WEB, using(WEB, "a")))
    await scene.plugin.called.wait()
    assert scene.on_disk() == {"a": {"uid-web"}}
    preparing.cancel()
    await asyncio.gather(preparing, return_exceptions=True)
    scene.plugin.hangs = False
    await scene.restarted().undo_orphans({"uid-other"})
    assert scene.plugin.asked[-1] == (UNPREPARE, ["a"])
    assert scene.on_disk() == {}


async def test_a_lost_state_file(scene: Scene) -> None:
    """What a running pod uses is prepared again, once its driver has registered, and undone with it."""
    pod, container = using(WEB, "a"), {"name": "c", "resources": {"claims": [{"name": "a"}]}}
    await scene.manager.prepare(WEB, pod)
    (scene.root / STATE_FILE).unlink()
    manager = scene.restarted()
    with pytest.raises(ValueError, match="unable to get claim info for ResourceClaim a"):
        manager.cdi_devices(pod, container)
    await manager.regain(WEB, using(WEB, "missing"))
    assert scene.on_disk() == {}
    await manager.regain(WEB, pod)
    assert manager.cdi_devices(pod, container) == ("t.test/c=a",)
    await manager.unprepare(WEB.uid)
    assert scene.plugin.asked == [(PREPARE, ["a"]), (PREPARE, ["a"]), (UNPREPARE, ["a"])]


LIVES = PodSnapshot(
    *("", "n", WEB.namespace, WEB.name, WEB.uid, "api", "", "sync"),
    sandbox_id="s",
    sandbox_ready=True,
    may_have_claims=True,
    pod=using(WEB, "a"),
)
KNOWN = {("default", "a"): ClaimAccount(claim=Claim("default", "a", "uid-a"), pods=frozenset({WEB.uid}))}


@pytest.mark.parametrize(
    ("pod", "accounts", "lost"),
    [
        pytest.param(LIVES, {}, True, id="a-running-pod-of-which-nothing-is-known"),
        pytest.param(LIVES, KNOWN, False, id="it-is-known"),
        pytest.param(replace(LIVES, sandbox_id=""), {}, False, id="before-its-sandbox"),
        pytest.param(replace(LIVES, sandbox_ready=False), {}, False, id="it-gets-another-sandbox"),
        pytest.param(replace(LIVES, lifecycle="terminating"), {}, False, id="it-ends"),
        pytest.param(replace(LIVES, deleting=True), {}, False, id="it-is-deleted"),
        pytest.param(replace(LIVES, may_have_claims=False), {}, False, id="it-uses-none"),
        pytest.param(replace(LIVES, pod={}), {}, False, id="a-snapshot-without-its-pod"),
    ],
)
def test_which_pods_are_prepared_again(pod: PodSnapshot, accounts: Accounts, lost: bool) -> None:
    """Those that run, and whose claims nobody knows any more."""
    assert is_without_claims(pod, accounts) is lost


async def test_a_driver_that_hangs_holds_up_only_who_needs_it(tmp_path: Path, scene: Scene) -> None:
    """A pod with another driver's claim is prepared meanwhile."""
    scene.cluster.drivers["b"] = ("b.test",)
    scene.plugin.hangs = True
    async with serving_plugin(tmp_path / "b", FaultyPlugin(), name="b.test") as socket:
        await register(socket, {DRA_PLUGIN: scene.drivers})
        hanging = asyncio.create_task(scene.manager.prepare(WEB, using(WEB, "a")))
        await scene.plugin.called.wait()
        await scene.manager.prepare(OTHER, using(OTHER, "b"))
        assert not hanging.done()
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)


async def test_a_driver_that_hangs_past_its_deadline(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod waits and is tried again; the claim stays known."""
    monkeypatch.setattr(dra_plugin, "CALL_SECONDS", 0.2)
    scene.plugin.hangs = True
    with pytest.raises(ResourcesRefused, match="NodePrepareResources: rpc error: code = DeadlineExceeded"):
        await scene.manager.prepare(WEB, using(WEB, "a"))
    scene.plugin.hangs = False
    await scene.manager.prepare(WEB, using(WEB, "a"))
    assert scene.used == {"<any>": 1, NAME: 1}


def of_another(request: Any) -> api.NodePrepareResourcesResponse:
    """Answer about a claim that nobody asked for."""
    answer = prepared(request)
    answer.claims["uid-of-another"].CopyFrom(api.NodePrepareResourceResponse())
    return answer


def with_an_error(request: Any) -> api.NodePrepareResourcesResponse:
    """Fail for the claim."""
    return api.NodePrepareResourcesResponse(
        claims={one.uid: api.NodePrepareResourceResponse(error="no such device") for one in request.claims}
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(of_another, "returned result for unknown claim UID uid-of-another", id="a-lie"),
        pytest.param(with_an_error, "failed for ResourceClaim a: no such device", id="an-error"),
        pytest.param(
            lambda _: api.NodePrepareResourcesResponse(), "NodePrepareResources skipped 1 ResourceClaims", id="nothing"
        ),
        pytest.param(lambda _: b"\xff" * 9, "cannot be decoded", id="garbage"),
    ],
)
async def test_an_answer_that_cannot_be_used(scene: Scene, answer: Callable[[Any], Any], why: str) -> None:
    """No device is taken over from it, and the claim is undone when the pod goes."""
    scene.plugin.prepare = answer
    with pytest.raises(ResourcesRefused, match=why):
        await scene.manager.prepare(WEB, using(WEB, "a"))
    [account] = scene.manager.accounts.values()
    assert (account.is_prepared, account.drivers) == (False, {NAME: ()})
    await scene.manager.unprepare(WEB.uid)
    assert scene.plugin.asked[-1] == (UNPREPARE, ["a"])


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        pytest.param(("a", "missing"), "fetch ResourceClaim missing: not found", id="one-that-is-not-there"),
        pytest.param(("a", "b"), "DRA driver gone.test is not registered", id="a-driver-that-is-not-there"),
        pytest.param(tuple(map(str, range(300))), "300 resource claims, more than 256", id="300-claims"),
    ],
)
async def test_what_fails_before_a_driver_is_asked_leaves_nothing(
    scene: Scene, claims: tuple[str, ...], why: str
) -> None:
    """So a pod whose driver never comes can be deleted."""
    scene.cluster.drivers["b"] = ("gone.test",)
    with pytest.raises(ResourcesRefused, match=why):
        await scene.manager.prepare(WEB, using(WEB, *claims))
    assert scene.plugin.asked == []
    assert scene.on_disk() == {}
    assert scene.operations == [("PrepareResources", True)]


async def test_another_claim_of_the_same_name(scene: Scene) -> None:
    """It waits until the older one is undone."""
    await scene.manager.prepare(WEB, using(WEB, "a"))
    scene.cluster.uids["a"] = "uid-new"
    with pytest.raises(
        ResourcesRefused, match="old ResourceClaim with same name a and different UID uid-a still exists"
    ):
        await scene.manager.prepare(OTHER, using(OTHER, "a"))
    await scene.manager.unprepare(WEB.uid)
    await scene.manager.prepare(OTHER, using(OTHER, "a"))
    assert scene.on_disk() == {"a": {"uid-other"}}


async def test_an_undo_that_fails_is_known_until_it_succeeds(scene: Scene) -> None:
    """Also after a restart."""
    await scene.manager.prepare(WEB, using(WEB, "a"))
    scene.plugin.unprepare = lambda _: api.NodeUnprepareResourcesResponse()
    with pytest.raises(ResourcesRefused, match="NodeUnprepareResources skipped 1 ResourceClaims"):
        await scene.manager.unprepare(WEB.uid)
    assert scene.on_disk() == {"a": {"uid-web"}}
    await scene.restarted().undo_orphans(())
    assert scene.on_disk() == {"a": {"uid-web"}}


async def test_a_disk_that_is_full(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver is asked before the claim is on disk."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("worker.dra.claim_manager.write_atomically", full)
    with pytest.raises(ResourcesRefused, match=r"checkpoint ResourceClaim state: .*No space left"):
        await scene.manager.prepare(WEB, using(WEB, "a"))
    assert scene.plugin.asked == []


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_cannot_be_used_refuses_the_start(tmp_path: Path, content: bytes) -> None:
    """As with a kubelet: claims may be prepared that nobody knows of."""
    (tmp_path / STATE_FILE).write_bytes(content)
    with pytest.raises(ConfigurationRefused, match="failed to get checkpoint dra_manager_state"):
        load_accounts(tmp_path)
