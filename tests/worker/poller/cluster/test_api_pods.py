"""Which call does a pod of the API need next, and is none killed or started on incomplete information?"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from activities.clients.api_server.errors import ApiAway
from activities.execution import growing_intervals
from activities.execution.growing_intervals import AT_ONCE
from proto.refusals import BEING_ADMITTED, Refusal
from proto.temporal.pod import NodeSettings, PodJson, PodStart
from proto.temporal.pod_inputs import Ended, GivenCondition, Rejected
from proto.temporal.signals import DeletionRequested, PodListed, StatusGiven
from tests.worker.poller.noted_calls import NotedCalls
from tests.worker.poller.resizes.listed_pods import ListedPods, cpu_of, pod
from worker.poller.calls.admissions import TOLD_AFTER, TOLD_EVERY
from worker.poller.calls.open_workflows import OpenPod
from worker.poller.calls.temporal_calls import CallRefused, TemporalUnavailable
from worker.poller.cluster.api_pod import ApiPod, read_api_pod
from worker.poller.cluster.api_pod_needs import Call, DeletePod, Known, RemovePod, StartPod, TellStatus
from worker.poller.cluster.api_pods import ApiPods, ApiPodsDependencies
from worker.temporal.signal_numbers import SignalNumbers

NOW = datetime(2026, 1, 2, tzinfo=UTC)
UID = "d5352474-1d96-490e-9afd-0b2272da77c1"
WORKFLOW = f"pod/n/default/web/{UID}"
OPEN = OpenPod(WORKFLOW, source="api")


def document(image: str = "busybox:1", status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """Write a pod as the API gives it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": UID,
            "resourceVersion": "7",
            "managedFields": [{"manager": "kubectl"}],
            **metadata,
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": image, "env": None}]},
        "status": status or {"phase": "Pending"},
    }


def read(*args: Any, **fields: Any) -> ApiPod:
    """Read one."""
    return read_api_pod(document(*args, **fields), NOW)


GATE = {"type": "example.com/gate", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_what_history_keeps_of_a_pod() -> None:
    """Its metadata and spec without fields that every write changes, and the kubelet's source annotations."""
    kept = read(deletionTimestamp="2026-01-02T00:00:30Z", deletionGracePeriodSeconds=30, labels={"a": "b"}).pod
    assert kept == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": UID,
            "labels": {"a": "b"},
            "annotations": {
                "kubernetes.io/config.seen": "2026-01-02T00:00:00.000000000Z",
                "kubernetes.io/config.source": "api",
            },
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "busybox:1"}]},
    }


def test_what_is_read_besides() -> None:
    """Deletion, end and start, and conditions that concern the node; the kubelet's own conditions are left out."""
    status = {
        "phase": "Failed",
        "reason": "Evicted",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            GATE,
            {"type": "Ready", "status": "False"},
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
        ],
    }
    raw = document(status=status, deletionTimestamp="x", deletionGracePeriodSeconds=0, finalizers=["f"])
    raw["spec"]["readinessGates"] = [{"conditionType": "example.com/gate"}]
    found = read_api_pod(raw, NOW)
    assert (found.deleted, found.grace, found.held, found.ended) == (
        True,
        timedelta(),
        True,
        Ended("Failed", "Evicted"),
    )
    assert found.started_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert set(found.conditions) == {"example.com/gate", "DisruptionTarget"}
    assert found.conditions["example.com/gate"].status == "True"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("not json", id="no-json"),
        pytest.param("[]", id="no-object"),
        pytest.param('{"timeoutSeconds": 5}', id="without-what-it-does"),
        pytest.param('{"exec": {"command": ["true"]}, "timeoutSeconds": 1e12}', id="beyond-its-bounds"),
        pytest.param("[" * 100_000, id="too-deep"),
    ],
)
def test_a_hook_annotation_that_says_nothing_usable_is_passed_over(text: str) -> None:
    """The API takes any text; the workflow gets only what a manifest may have, and valid annotations are kept."""
    good = {"postStop.tempolet.dev/c": '{"exec": {"command": ["true"]}}', "example.com/a": "b"}
    raw = document(annotations={"preStart.tempolet.dev/c": text, **good})
    kept = read_api_pod(raw, NOW, hooks=True).pod["metadata"]["annotations"]
    assert {name: said for name, said in kept.items() if "kubernetes.io" not in name} == good


def test_the_longest_grace_that_the_api_takes_is_read() -> None:
    """It bounds none: one such pod must not end the listing of all others."""
    raw = document(deletionTimestamp="x", deletionGracePeriodSeconds=2**63 - 1)
    assert read_api_pod(raw, NOW).grace == timedelta(seconds=2**31 - 1)


WEB, EDITED = read(), read("busybox:2")
GOING = replace(WEB, deleted=True, grace=timedelta(seconds=30))
FORCED = replace(GOING, grace=timedelta(seconds=0))
ENDED = replace(WEB, ended=Ended("Failed"))
GATED = replace(WEB, conditions={"g": GivenCondition("True", NOW)})
HELD = replace(FORCED, held=True)


@pytest.mark.parametrize(
    ("known", "call"),
    [
        pytest.param(Known(WEB), StartPod(WEB), id="a-new-pod-starts"),
        pytest.param(Known(WEB, WEB, open=OPEN), None, id="a-pod-that-was-signalled-rests"),
        pytest.param(Known(read(), WEB, open=OPEN), None, id="seen-again-is-no-change"),
        pytest.param(Known(EDITED, WEB, open=OPEN), StartPod(EDITED), id="an-edit-is-listed"),
        pytest.param(Known(WEB, None, open=OPEN), StartPod(WEB), id="a-poller-that-restarts-lists-once"),
        pytest.param(Known(GOING), DeletePod(GOING), id="found-with-a-deletion"),
        pytest.param(Known(GOING, WEB, open=OPEN), DeletePod(GOING), id="deleted"),
        pytest.param(Known(GOING, GOING, open=OPEN), None, id="asked-once"),
        pytest.param(Known(FORCED, GOING, open=OPEN), DeletePod(FORCED), id="a-shorter-grace-is-signalled"),
        pytest.param(Known(HELD, GOING, open=None), None, id="gone-and-held-by-finalizers"),
        pytest.param(Known(ENDED), None, id="what-has-ended-never-starts"),
        pytest.param(Known(ENDED, WEB, open=OPEN), TellStatus(ENDED), id="ended-by-others"),
        pytest.param(Known(ENDED, ENDED, open=OPEN), None, id="an-end-is-signalled-once"),
        pytest.param(
            Known(replace(GOING, ended=ENDED.ended)), DeletePod(replace(GOING, ended=ENDED.ended)), id="ended-and-to-go"
        ),
        pytest.param(Known(GATED, WEB, open=OPEN), TellStatus(GATED), id="a-condition-of-others"),
        pytest.param(Known(WEB, GATED, open=OPEN), TellStatus(WEB), id="and-its-end"),
        pytest.param(Known(None, WEB, open=OPEN), RemovePod(WORKFLOW), id="listed-no-more"),
        pytest.param(Known(None, GOING, open=OPEN, deletions_requested=True), None, id="gone-as-it-was-asked-to"),
        pytest.param(
            Known(None, WEB, open=OPEN, last=FORCED),
            RemovePod(WORKFLOW, timedelta()),
            id="forced-and-gone-before-it-was-signalled",
        ),
        pytest.param(
            Known(None, GOING, open=OPEN, deletions_requested=True, last=FORCED),
            RemovePod(WORKFLOW, timedelta()),
            id="forced-and-gone-while-it-went",
        ),
        pytest.param(
            Known(None, FORCED, open=OPEN, deletions_requested=True, last=FORCED),
            None,
            id="forced-and-gone-as-it-was-signalled",
        ),
        pytest.param(Known(None, WEB, open=OPEN, last=WEB), RemovePod(WORKFLOW), id="gone-without-a-deletion-seen"),
        pytest.param(Known(None), None, id="nothing-at-all"),
    ],
)
def test_what_a_pod_needs(known: Known, call: Call | None) -> None:
    """Each row is what is desired, signalled and known of one pod."""
    assert known.next_call(open_known=True, shown_phase="Running") == call


def test_an_end_that_our_own_status_told_is_no_news() -> None:
    """And nothing is removed before the open workflows are known."""
    assert Known(ENDED, WEB, open=OPEN).next_call(open_known=True, shown_phase="Failed") is None
    assert Known(None, WEB, open=OPEN).next_call(open_known=False, shown_phase="Running") is None


@pytest.mark.parametrize(
    ("signalled", "shown_phase", "is_told"),
    [
        pytest.param(GOING, "", False, id="our-own-delete-of-what-is-gone-here"),
        pytest.param(GOING, "Running", True, id="one-that-others-have-ended-and-that-runs-here"),
        pytest.param(GOING, "Failed", True, id="one-of-which-something-is-left"),
        pytest.param(WEB, "", True, id="one-that-was-not-asked-to-go"),
    ],
)
def test_our_own_delete_without_grace_is_no_news(signalled: ApiPod, shown_phase: str, *, is_told: bool) -> None:
    """It is seen as a shorter grace before the object is gone; others' is, too, and theirs ends a pod sooner."""
    forced = replace(FORCED, ended=ENDED.ended)
    known = Known(forced, signalled, open=OPEN)
    assert known.next_call(open_known=True, shown_phase=shown_phase) == (DeletePod(forced) if is_told else None)
    known = Known(None, signalled, open=OPEN, deletions_requested=signalled.deleted, last=forced)
    gone = RemovePod(WORKFLOW, forced.grace)
    assert known.next_call(open_known=True, shown_phase=shown_phase) == (gone if is_told else None)


class Node(NotedCalls):
    """Plays Temporal, the API and admission, and writes down what it is asked."""

    def __init__(self, root_dir: Path) -> None:
        super().__init__()
        self.numbers = SignalNumbers()
        self.granting = ListedPods(root_dir)
        self.hardware = SimpleNamespace(why_waits=lambda uid: f"the hardware of {uid} is being chosen")
        self.open: set[str] = set()
        self.gone: bool | Exception = True
        self.rejects: Rejected | None = None
        self.admits = asyncio.Event()
        self.admits.set()
        self.waits = asyncio.Event()
        """Set while a pod waits to be admitted."""
        self.waited = asyncio.Event()
        self.last_image = ""
        self.refusals: dict[str, Refusal] = {}
        self.starts: list[tuple[PodStart, PodListed | DeletionRequested]] = []
        self.known_during_calls: list[bool] = []
        """Whether a deletion counted as requested while it was."""
        self.lost_requests = 0
        """How many of the next requests of a deletion get no answer."""
        self.pods = ApiPods(
            self,  # type: ignore[arg-type]  # plays PodWorkflows
            "n",
            NodeSettings(),
            ApiPodsDependencies(
                confirms=self,
                admit=self.admit,
                shown_phase=lambda _: "",
                refused=self.refused,
                resizes=self.granting.resizes,
            ),
        )
        self.granting.resizes.on_change = self.pods.resized

    def refused(self, name: str, refusal: Refusal | None) -> None:
        """Take what is refused, and that it is no more."""
        if refusal:
            self.refusals[name] = refusal
        else:
            self.refusals.pop(name, None)

    async def admit(self, pod: PodJson) -> Rejected | None:
        """Take it or not, in time."""
        assert pod["metadata"]["uid"] == UID
        self.waits.set()
        try:
            await self.admits.wait()
        finally:
            self.waits.clear()
            self.waited.set()
        return self.rejects

    async def is_gone(self, namespace: str, name: str, uid: str) -> bool:
        """Say what the API says."""
        self.note(f"is {namespace}/{name} gone")
        assert uid == UID
        if isinstance(self.gone, Exception):
            raise self.gone
        return self.gone

    async def start(self, start: PodStart, said: PodListed | DeletionRequested) -> None:
        """Start, or signal."""
        self.starts.append((start, said))
        sight = start.first_sight
        assert sight is not None
        words = ["start", "with its content" if isinstance(said, PodListed) and said.pod else ""]
        words += [sight.rejected.reason if sight.rejected else "", "to go" if sight.deleted else ""]
        self.note(" ".join(filter(None, words)))
        self.last_image = said.pod["spec"]["containers"][0]["image"] if isinstance(said, PodListed) and said.pod else ""
        self.open.add(WORKFLOW)

    async def request_deletion(self, workflow_id: str, request: DeletionRequested) -> bool:
        """Signal."""
        self.known_during_calls.append(self.pods.deletion_requested(UID))
        self.note(f"{request.reason} {request.grace}")
        if self.lost_requests:
            self.lost_requests -= 1
            raise TemporalUnavailable("no answer")
        return workflow_id in self.open

    async def status_given(self, workflow_id: str, given: StatusGiven) -> bool:
        """Signal."""
        self.note(f"status {sorted(given.conditions)}")
        return workflow_id in self.open

    async def until_called(self, *calls: str) -> None:
        """Wait until these were made, and no other."""
        await self.until(len(calls))
        assert self.calls == list(calls)

    def set_open(self, *, later: float = 0.0) -> None:
        """Tell which workflows are open, as if so many seconds later."""
        found = [OpenPod(one, source="api") for one in self.open]
        self.pods.set_open(found, asyncio.get_running_loop().time() + later)


@pytest.fixture
async def node(tmp_path: Path) -> Any:
    """Make a node; its lister is closed afterwards."""
    made = Node(tmp_path)
    yield made
    await made.pods.close()


async def test_a_life_in_the_api(node: Node) -> None:
    """Created, edited, deleted, deleted by force, gone: each is signalled once."""
    node.set_open()
    node.pods.set_listed([])
    node.pods.set_changed(WEB)
    await node.until_called("start")
    node.pods.set_changed(EDITED)
    await node.until_called("start", "start with its content")
    node.pods.set_changed(GOING)
    node.pods.set_changed(FORCED)
    signalled = ["start", "start with its content", "PodDeleted 0:00:00"]
    await node.until_called(*signalled)
    node.pods.set_changed(FORCED, removed=True)
    await node.until_called(*signalled)
    node.open.clear()
    node.set_open(later=60)
    await node.until_called(*signalled)
    assert not node.pods.knows(UID)


async def test_a_pod_of_which_only_the_status_changes_is_held_once(node: Node) -> None:
    """What was read first stays, and with it when it was seen."""
    node.set_open()
    node.pods.set_listed([WEB])
    await node.until_called("start")
    node.pods.set_changed(replace(read(), conditions=GATED.conditions))
    node.pods.set_listed([read()])
    assert [one.pod is WEB.pod for one in node.pods.pods] == [True]
    node.pods.set_changed(EDITED)
    assert [one.pod is EDITED.pod for one in node.pods.pods] == [True]


def sized(cpu: str, generation: int) -> ApiPod:
    """Read a pod that requests so much cpu."""
    raw = document(generation=generation)
    raw["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return read_api_pod(raw, NOW)


async def test_a_resize_is_told_once_it_is_judged_and_once_it_is_granted(node: Node) -> None:
    """Until then the pod is listed with what it has."""
    node.set_open()
    node.pods.set_listed([sized("1", 1)])
    await node.until_called("start")
    node.pods.set_changed(sized("1500m", 2))
    node.pods.set_changed(sized("9", 3))
    node.pods.set_changed(replace(sized("9", 3), conditions=GATED.conditions))
    await node.until_last("status ['g']")
    node.granting.capacity = 9000
    node.granting.resizes.retry("pods_removed")
    await node.until_last("start with its content")
    said = [signal for _, signal in node.starts if isinstance(signal, PodListed) and signal.pod]
    found = [
        (cpu_of(one.pod), one.pod["metadata"]["generation"], one.resize.pending.message if one.resize.pending else "")
        for one in said
        if one.pod and one.resize
    ]
    assert found[-2:] == [("1500m", 3, "9000 beside 0"), ("9", 3, "")]
    assert len(found) == len(said) <= 3, "an edit that came before its call was made is not told by itself"


async def test_a_pod_that_is_gone_frees_what_it_was_granted(node: Node) -> None:
    """For the others that wait."""
    node.set_open()
    node.pods.set_listed([sized("1", 1)])
    await node.until_called("start")
    node.granting.start(pod("b", "1"))
    node.granting.present[UID] = next(iter(node.pods.pods)).pod
    node.granting.edit(pod("b", "2", 2))
    assert node.granting.pending("b") == "Deferred OutOfcpu: 2000 beside 1000"
    del node.granting.present[UID]
    node.pods.set_changed(sized("1", 1), removed=True)
    assert (node.granting.cpu("b"), node.granting.pending("b")) == ("2", "")


async def test_a_deletion_by_force_keeps_its_grace_when_it_is_seen_at_once_with_the_objects_end(node: Node) -> None:
    """And is signalled once; the pod's own grace could be ten minutes."""
    node.open = {WORKFLOW}
    node.set_open()
    node.pods.set_listed([WEB])
    await node.until_called("start with its content")
    node.pods.set_changed(FORCED)
    node.pods.set_changed(FORCED, removed=True)
    await node.until_called("start with its content", "is default/web gone", "PodRemoved 0:00:00")


async def test_an_empty_list_kills_nothing_that_the_api_does_not_confirm(node: Node) -> None:
    """Away, then of another mind, then sure."""
    node.open = {WORKFLOW}
    node.set_open()
    node.gone = ApiAway("away")
    node.pods.set_listed([])
    await node.until_called("is default/web gone")
    node.gone = False
    node.pods.set_listed([])
    await asyncio.sleep(0.15)
    assert set(node.calls) == {"is default/web gone"}
    node.gone = True
    node.pods.set_listed([WEB])
    node.pods.set_listed([])
    await node.until_last("PodRemoved None")


async def test_an_open_pod_is_kept_until_the_api_has_listed(node: Node) -> None:
    """An API server that is away at the start lists nothing."""
    node.open = {WORKFLOW}
    node.set_open()
    await asyncio.sleep(0)
    assert node.calls == []
    assert node.pods.may_list("any other")


async def test_a_pod_found_on_its_way_out_is_started_to_be_cleaned(node: Node) -> None:
    """No workflow is open, so one is started that only cleans up."""
    node.set_open()
    node.pods.set_listed([GOING])
    await node.until_called("PodDeleted 0:00:30", "start to go")
    assert node.pods.deletion_requested(UID)


@pytest.mark.parametrize(
    ("goes", "calls"),
    [
        pytest.param(lambda node: node.pods.set_changed(GOING), ["PodDeleted 0:00:30"], id="deleted"),
        pytest.param(lambda node: node.pods.set_listed([]), ["is default/web gone", "PodRemoved None"], id="gone"),
    ],
)
async def test_a_deletion_is_known_of_from_its_call_on(
    node: Node, goes: Callable[[Node], None], calls: list[str]
) -> None:
    """Its containers may end before the answer comes; a call that fails has requested nothing."""
    node.open = {WORKFLOW}
    node.set_open()
    node.pods.set_listed([WEB])
    await node.until_called("start with its content")
    assert not node.pods.deletion_requested(UID)
    node.lost_requests = 1
    goes(node)
    await node.until(1 + len(calls))
    assert not node.pods.deletion_requested(UID)
    await node.until_called("start with its content", *calls, *calls)
    assert node.known_during_calls == [True, True]
    assert node.pods.deletion_requested(UID)


async def test_finalizers_start_nothing_again(node: Node) -> None:
    """Everything of the pod is gone, and its object stays."""
    node.open = {WORKFLOW}
    node.set_open()
    node.pods.set_listed([replace(GOING, held=True)])
    await node.until_called("PodDeleted 0:00:30")
    node.open.clear()
    node.pods.set_changed(HELD)
    await node.until_called("PodDeleted 0:00:30", "PodDeleted 0:00:00")
    node.set_open(later=60)
    await node.until_called("PodDeleted 0:00:30", "PodDeleted 0:00:00")


async def test_a_pod_with_finalizers_that_is_listed_again_after_its_removal_starts_again(node: Node) -> None:
    """Each pod of a Job has one; here an etcd had lost it for a while, and nobody has deleted it."""
    held = replace(WEB, held=True)
    node.open = {WORKFLOW}
    node.set_open()
    node.pods.set_listed([held])
    await node.until_called("start with its content")
    node.pods.set_listed([])
    signalled = ["start with its content", "is default/web gone", "PodRemoved None"]
    await node.until_called(*signalled)
    node.pods.set_listed([held])
    node.open.clear()
    node.set_open(later=60)
    await node.until_called(*signalled, "start with its content")


async def test_the_end_of_its_object_starts_nothing_again(node: Node) -> None:
    """Its workflow deletes it without grace, which the API shows as a shorter grace period; a lost one is repeated."""
    node.open = {WORKFLOW}
    node.set_open()
    node.pods.set_listed([GOING])
    await node.until_called("PodDeleted 0:00:30")
    node.open.clear()
    node.pods.set_changed(FORCED)
    signalled = ["PodDeleted 0:00:30", "PodDeleted 0:00:00"]
    await node.until_called(*signalled)
    node.set_open(later=60)
    await node.until_called(*signalled, "PodDeleted 0:00:00", "start to go")


async def test_what_others_wrote_while_the_poller_was_away_is_told(node: Node) -> None:
    """A listing passes only the spec to an open workflow; missed conditions are signalled after it."""
    node.open = {WORKFLOW}
    node.set_open()
    node.pods.set_listed([GATED])
    await node.until_called("start with its content", "status ['g']")


async def test_an_end_that_others_told_while_the_poller_was_away_is_told(node: Node) -> None:
    """The pod garbage collector has ended it, and its containers still run."""
    node.open = {WORKFLOW}
    node.set_open()
    node.pods.set_listed([ENDED])
    await node.until_called("start with its content", "status []")


async def test_an_edit_and_a_condition_that_come_together_are_both_told(node: Node) -> None:
    """Each has a signal of its own."""
    node.set_open()
    node.pods.set_listed([WEB])
    await node.until_called("start")
    node.pods.set_changed(replace(EDITED, conditions=GATED.conditions))
    await node.until_called("start", "start with its content", "status ['g']")


async def edited_often(node: Node, times: int, seen: Callable[[int], ApiPod]) -> None:
    """Edit a pod so many times, and let each edit be handled."""
    node.set_open()
    node.pods.set_listed([WEB])
    await node.until_called("start")
    for one in range(times):
        node.pods.set_changed(seen(one))
        for _ in range(10):
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(lambda one: read(f"busybox:{one + 2}"), id="edits"),
        pytest.param(
            lambda one: replace(WEB, conditions={"g": GivenCondition("True", NOW, message=str(one))}), id="conditions"
        ),
    ],
)
async def test_who_may_edit_a_pod_cannot_fill_its_history(node: Node, seen: Callable[[int], ApiPod]) -> None:
    """Twenty signals at once, and later ones at growing intervals; a deletion and an end wait for nothing."""
    await edited_often(node, 500, seen)
    assert len(node.calls) == 1 + AT_ONCE
    node.pods.set_changed(replace(seen(500), ended=Ended("Failed", "Evicted")))
    await node.until(2 + AT_ONCE)
    node.pods.set_changed(GOING)
    await node.until_last("PodDeleted 0:00:30")


async def test_of_many_edits_the_newest_arrives(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is due, without another change of the pod."""
    monkeypatch.setattr(growing_intervals, "FIRST_GAP", 0.05)
    await edited_often(node, 60, lambda one: read(f"busybox:{one + 2}"))
    await node.until(2 + AT_ONCE)
    while node.last_image != "busybox:61":  # on a busy machine a gap may be over before the last edit
        await node.until(len(node.calls) + 1)


async def test_conditions_at_first_sight_come_with_the_start(node: Node) -> None:
    """And by no signal besides."""
    node.set_open()
    node.pods.set_listed([GATED])
    await node.until_called("start")


async def test_what_has_ended_is_not_run_again(node: Node) -> None:
    """Neither before nor after the open workflows are known."""
    node.pods.set_listed([ENDED])
    await asyncio.sleep(0)
    node.set_open()
    await node.until_called()
    assert node.pods.may_list(UID)


async def test_a_refused_pod_starts_with_its_refusal_and_an_open_one_is_not_asked(node: Node) -> None:
    """A pod that was admitted stays so."""
    node.rejects = Rejected("OutOfcpu", "too little")
    node.set_open()
    node.pods.set_listed([WEB])
    await node.until_called("start OutOfcpu")
    node.pods.set_changed(EDITED)
    await node.until_called("start OutOfcpu", "start with its content")


async def test_a_pod_that_is_deleted_while_it_waits_for_hardware_goes_at_once(node: Node) -> None:
    """Its device plugin may not register for minutes, or hang."""
    node.admits.clear()
    node.set_open()
    node.pods.set_listed([WEB])
    await node.waits.wait()
    node.pods.set_changed(EDITED)
    node.pods.set_changed(GOING)
    await node.until_called("PodDeleted 0:00:30", "start to go")
    assert not node.waits.is_set()


@pytest.mark.jumping_clock
async def test_a_pod_whose_hardware_takes_long_is_shown(node: Node) -> None:
    """What it waits for, until it begins."""
    node.admits.clear()
    node.set_open()
    node.pods.set_listed([WEB])
    await node.waits.wait()
    await asyncio.sleep(TOLD_AFTER + 1)
    (told,) = node.refusals.values()
    assert (told.pod, told.reason, told.message) == (
        "default/web",
        BEING_ADMITTED,
        f"the hardware of {UID} is being chosen",
    )
    node.admits.set()
    await node.until_called("start")
    await asyncio.sleep(TOLD_EVERY)
    assert node.refusals == {}


async def test_a_pod_that_is_gone_while_it_waits_for_hardware_is_forgotten(node: Node) -> None:
    """Nothing of it was begun; the next one of that uid is admitted."""
    node.admits.clear()
    node.set_open()
    node.pods.set_listed([WEB])
    await node.waits.wait()
    node.pods.set_changed(WEB, removed=True)
    await node.waited.wait()
    node.admits.set()
    node.pods.set_listed([WEB])
    await node.until_called("start")


async def test_a_poller_that_ends_does_not_wait_for_a_pods_hardware(node: Node) -> None:
    """Neither if the pod is deleted at that moment."""
    node.admits.clear()
    node.set_open()
    node.pods.set_listed([WEB])
    await node.waits.wait()
    closing = asyncio.ensure_future(node.pods.close())
    node.pods.set_changed(GOING)
    await closing
    assert node.calls == []


async def test_a_workflow_that_somebody_ended_is_started_again(node: Node) -> None:
    """As soon as it is known."""
    node.set_open()
    node.pods.set_listed([WEB])
    await node.until_called("start")
    node.open.clear()
    node.pods.lost(UID)
    await node.until_called("start", "start")


async def test_a_call_that_did_not_arrive_is_made_again_with_what_is_wanted_by_then(node: Node) -> None:
    """Temporal is away, and the pod is deleted meanwhile."""
    node.failures = [TemporalUnavailable("away")]
    node.set_open()
    node.pods.set_listed([WEB])
    await node.until_called("start")
    node.pods.set_changed(GOING)
    await node.until_called("start", "PodDeleted 0:00:30", "start to go")


async def test_an_edit_after_a_start_without_an_answer_reaches_the_workflow(node: Node) -> None:
    """The start may have succeeded with the old pod, and so may one that visibility does not show yet."""
    node.failures = [TemporalUnavailable("no answer")]
    node.set_open()
    node.pods.set_listed([WEB])
    await node.until_called("start")
    node.pods.set_changed(replace(EDITED, conditions=GATED.conditions))
    signalled = ["start", "start with its content", "status ['g']"]
    await node.until_called(*signalled)
    node.failures = [TemporalUnavailable("no answer")]
    node.pods.set_changed(WEB)
    await node.until_called(*signalled, "start with its content")
    node.open.clear()
    node.set_open(later=60)
    node.pods.set_changed(GATED)
    await node.until_called(*signalled, *["start with its content"] * 2, "status ['g']")


async def test_a_refusal_goes_with_its_pod(node: Node) -> None:
    """Else `tempolet pods` and an alert would show it until the poller is restarted."""
    node.failures = [CallRefused("too large")]
    node.set_open()
    node.pods.set_listed([WEB])
    await node.until_called("start")
    assert [one.pod for one in node.refusals.values()] == ["default/web"]
    node.pods.set_changed(WEB, removed=True)
    await node.until_called("start")
    assert node.refusals == {}


async def test_a_pod_that_is_kept_in_doubt_is_told_of_once(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """It is checked again and again, for as long as an etcd is lost."""
    node.open, node.gone = {WORKFLOW}, False
    node.set_open()
    node.pods.set_listed([])
    await node.until_called("is default/web gone")
    node.pods.set_listed([WEB])
    node.pods.set_listed([])
    await node.until_called(*["is default/web gone"] * 2)
    assert capsys.readouterr().out.count("keeping a pod that the API does not list") == 1
