"""Which call does a pod name need next, and is nothing deleted on incomplete information?"""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from activities.execution.growing_intervals import AT_ONCE
from proto.refusals import BEING_ADMITTED, Refusal
from proto.temporal.pod import NodeSettings, PodJson, PodStart
from proto.temporal.pod_inputs import Rejected
from proto.temporal.signals import DeletionRequested, PodListed
from tests.worker.poller.manifests.manifests import static_pod
from tests.worker.poller.noted_calls import NotedCalls
from tests.worker.poller.resizes.listed_pods import ListedPods, cpu_of, pod
from worker.poller.calls.admissions import NOT_ADMITTED_YET, TOLD_AFTER, TOLD_EVERY
from worker.poller.calls.open_workflows import OpenPod
from worker.poller.calls.temporal_calls import CallRefused, TemporalUnavailable
from worker.poller.manifests.manifest_folder import Listing
from worker.poller.manifests.manifest_pod_needs import Delete, PodName, Start
from worker.poller.manifests.manifest_pods import Admit, ManifestPods
from worker.poller.manifests.merged_listings import ManifestListings
from worker.poller.manifests.static_pod import StaticPod
from worker.temporal.signal_numbers import SignalNumbers

A, B = Path("/m/a.yaml"), Path("/m/b.yaml")
OLD, NEW = "0" * 32, "1" * 32
WEB = "default/web"


def web(uid: str, path: Path = A, annotations: dict[str, str] | None = None) -> StaticPod:
    """Build the pod web."""
    return static_pod(path, "web", uid, annotations)


def workflow_id(uid: str) -> str:
    """Name its workflow."""
    return f"pod/n/default/web/{uid}"


def opened(uid: str, path: str = str(A)) -> dict[str, OpenPod]:
    """Say that its workflow is open."""
    return {uid: OpenPod(workflow_id(uid), path)}


def listing(*pods: StaticPod, undecided: tuple[str, ...] = (), readable: bool = True) -> Listing:
    """List these pods."""
    named = {f"{pod.namespace}/{pod.name}": pod for pod in pods}
    return Listing(pods=named, undecided=frozenset(undecided), readable=readable)


@pytest.mark.parametrize(
    ("name", "listed", "call"),
    [
        pytest.param(PodName(desired=web(NEW)), listing(web(NEW)), Start(web(NEW)), id="a-new-pod-starts"),
        pytest.param(
            PodName(desired=web(NEW), listed=web(NEW), open=opened(NEW)),
            listing(web(NEW)),
            None,
            id="a-listed-pod-rests",
        ),
        pytest.param(
            PodName(
                desired=web(NEW, annotations={"kubernetes.io/config.seen": "later"}), listed=web(NEW), open=opened(NEW)
            ),
            listing(web(NEW)),
            None,
            id="a-manifest-read-again-is-no-change",
        ),
        pytest.param(
            PodName(desired=web(NEW), listed=web(OLD), open=opened(OLD)),
            listing(web(NEW)),
            Delete(workflow_id(OLD), "ManifestReplaced", "manifest /m/a.yaml was changed"),
            id="an-edited-pod-goes-first",
        ),
        pytest.param(
            PodName(desired=web(NEW), listed=web(OLD), open=opened(OLD), deletions_requested={OLD}),
            listing(web(NEW)),
            Start(web(NEW)),
            id="then-its-successor-starts",
        ),
        pytest.param(
            PodName(desired=web(NEW, B), listed=web(OLD), open=opened(OLD)),
            listing(web(NEW, B)),
            Delete(workflow_id(OLD), "ManifestReplaced", "manifest /m/b.yaml took the place of manifest /m/a.yaml"),
            id="a-renamed-manifest-says-both-names",
        ),
        pytest.param(
            PodName(listed=web(OLD), open=opened(OLD)),
            listing(),
            Delete(workflow_id(OLD), "ManifestRemoved", "manifest /m/a.yaml is no longer there"),
            id="a-removed-pod-goes",
        ),
        pytest.param(
            PodName(open=opened(OLD)),
            listing(static_pod(A, "other", NEW)),
            Delete(workflow_id(OLD), "ManifestReplaced", "manifest /m/a.yaml now describes default/other"),
            id="a-file-that-tells-of-another-pod",
        ),
        pytest.param(PodName(open=opened(OLD), deletions_requested={OLD}), listing(), None, id="asked-once-is-enough"),
        pytest.param(
            PodName(open=opened(OLD), first_requests={OLD: Delete(workflow_id(OLD), "ManifestReplaced", "as before")}),
            listing(),
            Delete(workflow_id(OLD), "ManifestReplaced", "as before"),
            id="asked-anew-in-the-same-words",
        ),
        pytest.param(PodName(open=opened(OLD)), listing(undecided=(str(A),)), None, id="a-broken-file-keeps-its-pod"),
        pytest.param(
            PodName(open=opened(OLD, "")),
            listing(undecided=(str(B),)),
            None,
            id="a-broken-file-may-hold-any-unknown-pod",
        ),
        pytest.param(
            PodName(open=opened(OLD)),
            listing(undecided=(str(B),)),
            Delete(workflow_id(OLD), "ManifestRemoved", "manifest /m/a.yaml is no longer there"),
            id="a-broken-file-keeps-no-other-pod",
        ),
        pytest.param(PodName(open=opened(OLD)), listing(readable=False), None, id="an-unreadable-folder-keeps-all"),
        pytest.param(
            PodName(desired=static_pod(A, "web", "own", {"edited": "yes"}), listed=web("own"), open=opened("own")),
            listing(web("own")),
            Start(static_pod(A, "web", "own", {"edited": "yes"})),
            id="an-edit-under-a-uid-of-its-own-is-listed",
        ),
        pytest.param(
            PodName(desired=web(OLD), listed=web(OLD), open=opened(OLD), remade=OLD),
            listing(web(OLD)),
            Delete(workflow_id(OLD), "ManifestRemade", "manifest /m/a.yaml was removed and made again"),
            id="a-manifest-removed-and-made-again-restarts-its-pod",
        ),
        pytest.param(
            PodName(desired=web(OLD), open=opened(OLD), deletions_requested={OLD}),
            listing(web(OLD)),
            Start(web(OLD)),
            id="which-is-then-listed-again",
        ),
        pytest.param(
            PodName(desired=web(NEW), open=opened(NEW), listed=web(NEW), remade=OLD),
            listing(web(NEW)),
            None,
            id="another-pod-by-now-is-not-meant",
        ),
    ],
)
def test_each_name_needs_one_thing_at_a_time(name: PodName, listed: Listing, call: Start | Delete | None) -> None:
    """Each row is what is desired and known of one pod name."""
    assert name.next_call(ManifestListings({"file": listed})) == call


class Temporal(NotedCalls):
    """Takes calls as PodWorkflows does, or fails them as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = SignalNumbers()
        self.exists = True
        self.listed: list[PodListed] = []
        self.waits_for = ""
        self.hardware = SimpleNamespace(why_waits=lambda _: self.waits_for)

    async def start(self, start: PodStart, listed: PodListed) -> None:
        """Note a start."""
        self.listed.append(listed)
        self.note(f"start {start.pod['metadata']['uid'][:3]}" + (" with its content" if listed.pod else ""))

    async def request_deletion(self, workflow_id: str, request: DeletionRequested) -> bool:
        """Note a deletion."""
        self.note(f"delete {workflow_id.rsplit('/', 1)[1][:3]} {request.reason}")
        return self.exists


class Refused:
    """Who is told of refused starts."""

    def __init__(self) -> None:
        self.now: dict[str, Refusal] = {}

    def __call__(self, name: str, refusal: Refusal | None) -> None:
        """Take a refusal, or its end."""
        if refusal:
            self.now[name] = refusal
        else:
            self.now.pop(name, None)


def lister(temporal: Temporal, refused: Refused | None = None) -> ManifestPods:
    """Make a lister on the test's Temporal."""
    return ManifestPods(temporal, "n", NodeSettings(), refused or Refused())  # type: ignore[arg-type]  # plays PodWorkflows


async def test_nothing_is_deleted_before_the_open_workflows_are_known() -> None:
    """What was started is known; whether it is all there is, is not."""
    temporal = Temporal()
    pods = lister(temporal)
    pods.set_listing(listing(web(OLD)))
    await temporal.until(1)
    pods.set_listing(listing())
    await asyncio.sleep(0)
    assert temporal.calls == ["start 000"]
    pods.set_open([OpenPod(workflow_id(OLD), str(A))], asked_at=asyncio.get_running_loop().time())
    await temporal.until(2)
    assert temporal.calls == ["start 000", "delete 000 ManifestRemoved"]
    await pods.close()


async def test_a_manifest_removed_and_made_again_restarts_its_pod_once() -> None:
    """Deleted, listed again, and then left alone; also when the same listing is given once more."""
    temporal = Temporal()
    pods = lister(temporal)
    pods.set_open([], asked_at=asyncio.get_running_loop().time())
    pods.set_listing(listing(web(OLD)))
    await temporal.until(1)
    pods.set_listing(replace(listing(web(OLD)), remade=frozenset({WEB})))
    await temporal.until(3)
    pods.set_listing(listing(web(OLD)))
    await temporal.until(3)
    assert temporal.calls == ["start 000", "delete 000 ManifestRemade", "start 000"]
    await pods.close()


async def test_after_a_change_of_lead_a_deletion_is_requested_in_the_same_words() -> None:
    """The manifest was replaced, and is gone by now: the history of the pod before tells its deletion once."""
    temporal = Temporal()
    pods = lister(temporal)
    pods.set_open([], asked_at=asyncio.get_running_loop().time())
    pods.set_listing(listing(web(OLD)))
    await temporal.until(1)
    pods.set_listing(listing(web(NEW)))
    await temporal.until(3)
    pods.set_listing(listing())
    await temporal.until(4)
    pods.tell_anew([workflow_id(OLD)])
    await temporal.until(5)
    assert temporal.calls[1] == temporal.calls[4] == "delete 000 ManifestReplaced"
    await pods.close()


async def test_a_call_that_did_not_arrive_is_made_again_with_what_is_wanted_by_then() -> None:
    """Temporal is away for two calls, and the manifest is edited meanwhile."""
    temporal = Temporal()
    temporal.failures = [TemporalUnavailable("away"), TemporalUnavailable("away")]
    pods = lister(temporal)
    pods.set_open([], asked_at=0.0)
    pods.set_listing(listing(web(OLD)))
    await temporal.until(1)
    pods.set_listing(listing(web(NEW)))
    await temporal.until(3)
    assert temporal.calls == ["start 000", "start 111", "start 111"]
    await pods.close()


async def test_a_refused_start_is_shown_stops_no_other_and_ends_with_the_edit() -> None:
    """A pod larger than Temporal takes, for example."""
    temporal, refused = Temporal(), Refused()
    temporal.failures = [CallRefused("blob too large")]
    pods = lister(temporal, refused)
    pods.set_listing(listing(web(OLD), static_pod(B, "zzz", NEW)))
    await temporal.until(2)
    assert {name: (one.reason, one.message, one.path) for name, one in refused.now.items()} == {
        WEB: ("PodNotSent", "blob too large", str(A))
    }
    pods.set_listing(listing(web("2" * 32), static_pod(B, "zzz", NEW)))
    await temporal.until(3)
    assert temporal.calls == ["start 000", "start 111", "start 222"]
    assert refused.now == {}
    await pods.close()


async def test_a_uid_of_its_own_brings_its_content() -> None:
    """The UID does not tell whether the content has changed."""
    temporal = Temporal()
    pods = lister(temporal)
    pods.set_listing(listing(web("own")))
    await temporal.until(1)
    assert temporal.calls == ["start own with its content"]
    await pods.close()


def sized(cpu: str) -> StaticPod:
    """Build the pod web with a UID of its own and so much cpu."""
    made = web("own")
    return replace(made, pod={**made.pod, "spec": pod("own", cpu)["spec"]})


async def test_a_resize_of_a_manifest_is_told_when_it_is_judged_and_when_it_is_granted(tmp_path: Path) -> None:
    """Until then the pod is listed with what it has; a reading that changes nothing is no news."""
    temporal, granting = Temporal(), ListedPods(tmp_path)
    pods = lister(temporal)
    pods.resizes, granting.resizes.on_change = granting.resizes, pods.resized
    pods.set_open([], asked_at=0.0)
    pods.set_listing(listing(sized("1")))
    await temporal.until(1)
    for _ in range(2):
        pods.set_listing(listing(sized("9")))
        await temporal.until(2)
    granting.capacity = 9000
    granting.resizes.retry("periodic_retry")
    await temporal.until(3)
    said = [(cpu_of(one.pod), one.resize.pending) for one in temporal.listed if one.pod and one.resize]
    assert [(cpu, pending.message if pending else "") for cpu, pending in said] == [
        ("1", ""),
        ("1", "9000 beside 0"),
        ("9", ""),
    ]
    await pods.close()


async def test_edits_of_a_pod_with_a_uid_of_its_own_are_signalled_at_growing_intervals() -> None:
    """A manifest that is written each second does not fill the pod's history; its removal waits for nothing."""
    temporal = Temporal()
    pods = lister(temporal)
    pods.set_open([], asked_at=0.0)
    for one in range(200):
        pods.set_listing(listing(web("own", annotations={"n": str(one)})))
        for _ in range(10):
            await asyncio.sleep(0)
    assert temporal.calls == ["start own with its content"] * (1 + AT_ONCE)
    pods.set_listing(listing())
    await temporal.until_last("delete own ManifestRemoved")
    await pods.close()


async def test_a_workflow_that_somebody_ended_is_started_again() -> None:
    """Visibility does not list it any more; one that was just started need not be listed yet."""
    temporal = Temporal()
    pods = lister(temporal)
    pods.set_listing(listing(web(OLD)))
    await temporal.until(1)
    now = asyncio.get_running_loop().time()
    pods.set_open([], asked_at=now)
    await asyncio.sleep(0)
    assert len(temporal.calls) == 1
    pods.set_open([], asked_at=now + 3600)
    await temporal.until(2)
    assert temporal.calls == ["start 000", "start 000"]
    await pods.close()


async def test_a_deletion_that_found_no_workflow_is_done() -> None:
    """It is not asked again, and nothing is left to remember."""
    temporal = Temporal()
    temporal.exists = False
    pods = lister(temporal)
    pods.set_listing(listing())
    pods.set_open([OpenPod(workflow_id(OLD), str(A))], asked_at=0.0)
    await temporal.until(1)
    pods.set_listing(listing())
    await asyncio.sleep(0)
    assert temporal.calls == ["delete 000 ManifestRemoved"]
    assert not pods.deletion_requested(workflow_id(OLD))
    await pods.close()


async def test_a_pod_that_cannot_begin_is_shown_and_begins_when_it_can() -> None:
    """Nobody else waits, what runs is not asked for, and a manifest that is removed meanwhile is shown no more."""
    temporal, refused = Temporal(), Refused()
    pods = lister(temporal, refused)
    why = "no device plugin has registered example.com/gpu yet"
    pods.why_waits = lambda pod: why if pod["metadata"]["name"] == "web" else ""
    pods.set_open([], asked_at=0.0)
    pods.set_listing(listing(web(OLD), static_pod(B, "zzz", NEW)))
    await temporal.until(1)
    assert temporal.calls == ["start 111"]
    assert {name: (one.reason, one.message) for name, one in refused.now.items()} == {
        WEB: ("DevicePluginNotRegistered", why)
    }
    pods.set_listing(listing(static_pod(B, "zzz", NEW)))
    assert refused.now == {}
    pods.set_listing(listing(web(OLD), static_pod(B, "zzz", NEW)))
    assert refused.now.keys() == {WEB}
    why = ""
    pods.look_again()
    await temporal.until(2)
    assert (temporal.calls[1], refused.now) == ("start 000", {})
    why = "again"
    pods.tell_anew([workflow_id(OLD)])
    await temporal.until(3)
    await pods.close()


def holding_back(asked: asyncio.Queue[str], until: asyncio.Event) -> Admit:
    """Admit static pods, `OLD` once the event is set; tells which were asked for."""

    async def admit(pod: PodJson, *, static: bool = False) -> Rejected | None:
        asked.put_nowait(pod["metadata"]["uid"])
        if pod["metadata"]["uid"] == OLD:
            await until.wait()
        return None if static else Rejected("NotStatic", "")

    return admit


async def test_a_pod_whose_manifest_changes_while_it_waits_to_be_admitted_waits_no_longer() -> None:
    """Nothing of it was begun; its successor is asked for."""
    temporal, asked = Temporal(), asyncio.Queue[str]()
    pods = lister(temporal)
    pods.admit = holding_back(asked, asyncio.Event())
    pods.set_open([], asked_at=0.0)
    pods.set_listing(listing(web(OLD)))
    assert await asked.get() == OLD
    pods.set_listing(listing(web(NEW)))
    assert await asked.get() == NEW
    await temporal.until(1)
    assert temporal.calls == ["start 111"]
    await pods.close()


async def test_a_pod_whose_manifest_goes_while_it_waits_to_be_admitted_is_forgotten() -> None:
    """The next one of that uid is asked for anew."""
    temporal, asked, admits = Temporal(), asyncio.Queue[str](), asyncio.Event()
    pods = lister(temporal)
    pods.admit = holding_back(asked, admits)
    pods.set_open([], asked_at=0.0)
    pods.set_listing(listing(web(OLD)))
    assert await asked.get() == OLD
    pods.set_listing(listing())
    pods.set_listing(listing(web(OLD)))
    assert await asked.get() == OLD
    admits.set()
    await temporal.until(1)
    assert temporal.calls == ["start 000"]
    await pods.close()


@pytest.mark.jumping_clock
async def test_a_pod_whose_admission_takes_long_is_shown() -> None:
    """And what it waits for, until it begins."""
    temporal, asked, admits, refused = Temporal(), asyncio.Queue[str](), asyncio.Event(), Refused()
    pods = lister(temporal, refused)
    pods.admit = holding_back(asked, admits)
    pods.set_open([], asked_at=0.0)
    pods.set_listing(listing(web(OLD)))
    assert await asked.get() == OLD
    await asyncio.sleep(TOLD_AFTER - 1)
    assert refused.now == {}
    await asyncio.sleep(2)
    assert {name: (one.reason, one.message, one.waits) for name, one in refused.now.items()} == {
        WEB: (BEING_ADMITTED, NOT_ADMITTED_YET, True)
    }
    temporal.waits_for = "its hardware is being chosen"
    await asyncio.sleep(TOLD_EVERY)
    assert refused.now[WEB].message == "its hardware is being chosen"
    admits.set()
    await temporal.until(1)
    await asyncio.sleep(TOLD_EVERY)
    assert (temporal.calls, refused.now) == (["start 000"], {})
    await pods.close()
