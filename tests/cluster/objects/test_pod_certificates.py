"""Do pods get certificates from a signer over a real API server, are they renewed, and does the private key stay on the node?"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from activities.objects.pod_certificates import PodCertificate, PodCertificateRefused, WantedCertificate
from activities.objects.tokens import BoundPod
from proto.pod_snapshot import PodSnapshot
from proto.temporal.signals import ObjectsChanged
from tests.cluster.cluster_node import ClusterNode, NewNode
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects.objects_node import PATIENCE, ObjectsNode, objects_node
from tests.cluster.objects.pod_signer import FLAGS, PodSigner, projection
from tests.cluster.objects.test_contents_from_api import volume
from tests.node.operating import tempolet
from tests.node.pod_story import history_text
from tests.node.secrets.searched_files import files_with
from tests.node.tempolet_node import pod_manifest
from tests.waiting import wait_until
from worker.pod_certificates import issuing
from worker.pod_certificates.issuing import PodCertificates, projections
from worker.pod_certificates.record import DELETED_AFTER

PATHS = {"credentialBundlePath": "bundle.pem", "keyPath": "key.pem", "certificateChainPath": "chain.pem"}
VOLUME = {"name": "creds", "projected": {"sources": [projection(**PATHS)]}}
KEY = "podcertificates/creds/0"
NUMBERS = iter(range(1000))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run an API server that has PodCertificateRequests."""
    with ControlPlane(tmp_path_factory.mktemp("plane"), apiserver_flags=[*FLAGS]) as made:
        yield made


@dataclass
class Heard:
    """What was reported."""

    events: list[tuple[str, str, str]] = field(default_factory=list)
    states: dict[tuple[str, str], int] = field(default_factory=dict)

    def warn(self, pod: BoundPod, reason: str, message: str) -> None:
        """Note an event."""
        self.events.append((pod.name, reason, message))

    def show(self, states: issuing.States) -> None:
        """Note the states."""
        self.states = dict(states)


@dataclass
class Asking:
    """A node's part for certificates, with a clock that a test moves."""

    node: ObjectsNode
    heard: Heard
    signer: PodSigner
    patched: pytest.MonkeyPatch
    certificates: PodCertificates = field(init=False)
    later: timedelta = timedelta()

    def __post_init__(self) -> None:
        self.certificates = PodCertificates(
            self.node.api,
            self.node.name,
            self.heard,
            now=lambda: datetime.now(UTC) + self.later,
            jitter=timedelta,
        )

    def forward(self, **by: int) -> None:
        """Set the clock forward. That of the API server, which writes when a request was made, stays: new requests are given up so much later."""
        self.later = timedelta(**by)
        self.patched.setattr(issuing, "DELETED_AFTER", DELETED_AFTER + self.later)

    def pod(self, name: str) -> PodSnapshot:
        """Bind a pod with a certificate that waits for it."""
        known = replace(self.node.bind(name, volumes=[VOLUME]), objects={KEY: "?"})
        self.node.publish(known)
        return known

    def wanted(self, pod: PodSnapshot) -> WantedCertificate:
        """Return its only projection."""
        (wanted,) = projections(pod)
        return wanted

    async def told(self) -> str:
        """Wait for a signal; returns the version."""
        return (await self.node.heard())[1][KEY]

    async def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Wait until something is so on the API server or here."""
        return await asyncio.to_thread(wait_until, holds, what, PATIENCE)

    async def request(self, pod: PodSnapshot) -> Any:
        """Look at everything, and wait for the one request of a pod that has no answer."""
        await self.look()
        (found,) = await self.until(lambda: self.signer.requests(pod.name), "a request")
        return found

    async def look(self) -> None:
        """Look at everything now."""
        await self.certificates.look(self.node.pods.values(), self.send)

    async def send(self, workflow_id: str, signal: ObjectsChanged) -> None:
        """Pass a signal on to the test."""
        self.node.told.put_nowait((workflow_id, signal.versions))


@pytest.fixture
async def asking(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asking]:
    """Run one for a test; a mount does not wait for the signer."""
    monkeypatch.setattr(issuing, "AWAITED", timedelta(milliseconds=1))
    async with objects_node(plane, f"certified-{next(NUMBERS)}") as node:
        made = Asking(node, Heard(), PodSigner(plane, node.namespace), monkeypatch)
        running = asyncio.create_task(made.certificates.run(lambda: list(node.pods.values()), made.send))
        yield made
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def fits(found: PodCertificate) -> bool:
    """Report whether a private key belongs to the first certificate."""
    key: Any = load_pem_private_key(found.key, None)
    return bool(key.public_key() == x509.load_pem_x509_certificate(found.chain).public_key())


async def test_a_certificate_is_issued_and_renewed(asking: Asking) -> None:
    """The pod hears of each; the old one is used until the new one is there."""
    pod = asking.pod("web")
    wanted = asking.wanted(pod)
    with pytest.raises(PodCertificateRefused, match=r"^credential bundle is not issued yet$"):
        await asking.certificates.certificate(wanted)
    request = await asking.request(pod)
    assert request["metadata"]["ownerReferences"][0]["uid"] == pod.uid
    assert "PRIVATE" not in str(request)
    issued = asking.signer.issue(request)
    version = await asking.told()
    first = await asking.certificates.certificate(wanted)
    assert (first.chain, first.version, fits(first)) == (issued, version, True)
    asking.node.publish(replace(pod, objects={KEY: version}))
    asking.forward(hours=1, minutes=1)
    await asking.look()
    renewal = await asking.request(pod)
    assert await asking.certificates.certificate(wanted) == first
    asking.signer.issue(renewal)
    assert await asking.told() != version
    second = await asking.certificates.certificate(wanted)
    assert fits(second)
    assert second.key != first.key
    assert asking.heard.events == []


@pytest.mark.parametrize(("kind", "word"), [("Denied", "denied"), ("Failed", "failed")])
async def test_a_refusal_is_final(asking: Asking, kind: str, word: str) -> None:
    """With the kubelet's words and its event; nothing else is asked for."""
    pod = asking.pod("web")
    request = await asking.request(pod)
    asking.signer.refuse(request, kind)
    await asking.until(lambda: asking.heard.events, "an event")
    words = f'PodCertificateRequest was permanently {word}: reason="Asked" message="by a test"'
    with pytest.raises(PodCertificateRefused) as refused:
        await asking.certificates.certificate(asking.wanted(pod))
    assert str(refused.value) == words
    assert [one[:2] for one in asking.heard.events] == [("web", kind)]
    await asking.look()
    assert asking.signer.requests("web") == []
    assert list(asking.heard.states.values()) == [1]
    assert [state for _, state in asking.heard.states] == [word]


async def test_a_renewal_that_nobody_answers_is_told(asking: Asking) -> None:
    """Once each: overdue, and expired; the pod keeps what it has."""
    pod = asking.pod("web")
    asking.signer.issue(await asking.request(pod))
    await asking.told()
    asking.forward(hours=3)
    await asking.look()
    await asking.look()
    assert [reason for _, reason, _ in asking.heard.events] == ["CertificateOverdueForRefresh", "CertificateExpired"]
    assert fits(await asking.certificates.certificate(asking.wanted(pod)))


async def test_a_request_that_was_deleted_is_made_again(asking: Asking) -> None:
    """After ten minutes, as by the kubelet."""
    pod = asking.pod("web")
    request = await asking.request(pod)
    metadata = request["metadata"]
    path = f"/apis/certificates.k8s.io/v1beta1/namespaces/{metadata['namespace']}/podcertificaterequests"
    asking.node.plane.api.delete(f"{path}/{metadata['name']}")
    await asking.look()
    assert asking.signer.requests("web") == []
    asking.forward(minutes=11)
    await asking.look()
    assert (await asking.request(pod))["metadata"]["name"] != metadata["name"]


async def test_what_the_api_server_refuses_is_said_and_others_go_on(asking: Asking) -> None:
    """A pod that is not there; its key is forgotten."""
    pod, other = asking.pod("web"), asking.pod("other")
    await asking.request(other)
    gone = replace(asking.wanted(pod), pod=BoundPod(pod.namespace, "web", "another-uid"))
    with pytest.raises(PodCertificateRefused, match=r"^credential bundle is not issued yet: .*pod") as refused:
        await asking.certificates.certificate(gone)
    assert "req-" not in str(refused.value), "an event that is the same each time is one event"
    asking.signer.issue(await asking.request(pod))
    await asking.told()


async def test_a_refused_renewal_is_told_for_as_long_as_the_pod_goes_on(asking: Asking) -> None:
    """It keeps the old certificate, which expires; a kubelet's event of the mount is repeated, too."""
    pod = asking.pod("web")
    asking.signer.issue(await asking.request(pod))
    pod = replace(pod, objects={KEY: await asking.told()})
    asking.node.publish(pod)
    asking.forward(hours=1, minutes=1)
    asking.signer.refuse(await asking.request(pod), "Denied")
    await asking.until(lambda: asking.heard.events, "an event")
    asking.heard.events.clear()
    await asking.look()
    await asking.look()
    words = 'MountVolume.SetUp failed for volume "creds" : PodCertificateRequest was permanently denied: '
    words += 'reason="Asked" message="by a test"'
    assert set(asking.heard.events) == {("web", "FailedMount", words)}
    assert len(asking.heard.events) >= 2
    asking.node.publish(replace(pod, deleting=True))
    asking.heard.events.clear()
    await asking.look()
    assert asking.heard.events == []


async def test_a_pod_that_is_over_is_forgotten(asking: Asking) -> None:
    """With its private key, and metrics count it no more."""
    pod = asking.pod("web")
    asking.signer.issue(await asking.request(pod))
    await asking.told()
    await asking.look()
    assert sum(asking.heard.states.values()) == 1
    asking.node.publish(replace(pod, deleting=True))
    await asking.look()
    assert (asking.certificates.states(), asking.heard.states) == ({}, {})


async def test_a_pod_that_is_not_listed_yet_is_kept(asking: Asking) -> None:
    """Its volume was mounted a moment ago; a minute is long for the first snapshot of a pod, ten are too long."""
    pod = asking.pod("web")
    wanted = asking.wanted(pod)
    asking.node.pods.clear()
    with pytest.raises(PodCertificateRefused):
        await asking.certificates.certificate(wanted)
    await asking.look()
    assert sum(asking.certificates.states().values()) == 1
    asking.forward(minutes=11)
    await asking.look()
    assert asking.certificates.states() == {}


@pytest.fixture
def node(new_node: NewNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNode]:
    """Run a whole node with the gate."""
    made = new_node(tmp_path_factory.mktemp("certified"), keys={"featureGates": {"PodCertificateRequest": True}})
    with made:
        made.until_started()
        made.until_ready()
        yield made


def test_a_pod_has_its_key_and_certificate(node: ClusterNode) -> None:
    """It starts when the signer has answered; the key is in the volume, and nowhere else."""
    signer = PodSigner(node.plane, "default")
    pod = node.create_pod(pod_manifest("web", volumes=[VOLUME]))
    uid = pod["metadata"]["uid"]
    node.until(lambda: len(signer.requests("web")) == 1, "one request")
    node.until(
        lambda: "credential bundle is not issued yet" in tempolet(node, "explain", "default/web")[1], "it says why"
    )
    issued = signer.issue(signer.requests("web")[0])
    snapshot = node.until_running("web")
    files = volume(node, uid, "projected", "creds")
    key, chain = (files / "key.pem").read_bytes(), (files / "chain.pem").read_bytes()
    assert fits(PodCertificate(key, chain))
    assert chain == issued
    assert (files / "bundle.pem").read_bytes() == key + chain
    secret = key.splitlines()[1]
    for told in (history_text(node, snapshot), *map(node.log, node.roles)):
        assert secret.decode() not in told
    for folder in (node.directory, node.temporal.root):
        assert files_with(secret, folder) == []
    assert snapshot.objects[KEY] == PodCertificate(b"", chain).version
    denied = node.create_pod(pod_manifest("denied", volumes=[VOLUME]))
    node.until(lambda: len(signer.requests("denied")) == 1, "one request")
    signer.refuse(signer.requests("denied")[0])
    words = 'PodCertificateRequest was permanently denied: reason="Asked" message="by a test"'
    node.until(lambda: words in tempolet(node, "explain", "default/denied")[1], "it says why")
    events = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid={denied['metadata']['uid']}"
    node.until(lambda: "Denied" in {one["reason"] for one in node.api.get(events)["items"]}, "its event")
