"""Does a URL give static pods as the kubelet's staticPodURL does, and change nothing while it fails?"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from activities.clients import manifest_url
from activities.clients.manifest_url import ManifestsUnreadable, ManifestUrl
from tests.patience import PATIENCE
from tests.worker.poller.manifests.manifests import static_pod
from worker.poller.calls.open_workflows import OpenPod
from worker.poller.manifests.manifest import NodeOfManifests
from worker.poller.manifests.manifest_folder import Listing
from worker.poller.manifests.merged_listings import ManifestListings
from worker.poller.manifests.url_source import UrlSource, place_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def pod(name: str = "web", image: str = "busybox:1") -> dict[str, Any]:
    """Write a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }


def said(document: Any) -> bytes:
    """Write it as JSON."""
    return json.dumps(document).encode()


class Said:
    """A URL that says what the test puts there, or fails with it."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)

    async def read(self) -> bytes:
        """Return the next answer."""
        match self.answers.pop(0):
            case bytes(data):
                return data
            case error:
                raise error


async def looks(*answers: bytes | Exception) -> list[Listing]:
    """Look once for each answer."""
    source = UrlSource("http://h/pods?token=x", Said(*answers), timedelta(seconds=1), NodeOfManifests("n1"))
    found = []
    for _ in answers:
        source._listing = await source.look(NOW)
        found.append(source._listing)
    return found


PODS = {"apiVersion": "v1", "kind": "PodList", "items": [pod("a"), pod("b")]}
BAD = {"apiVersion": "v1", "kind": "PodList", "items": [pod("a"), pod("No Name")]}


@pytest.mark.parametrize(
    ("answer", "names", "reason"),
    [
        pytest.param(said(pod()), {"default/web-n1"}, "", id="one-pod"),
        pytest.param(said(PODS), {"default/a-n1", "default/b-n1"}, "", id="a-list-of-pods"),
        pytest.param(b"", set(), "", id="nothing-means-no-pods"),
        pytest.param(said({**PODS, "items": []}), set(), "", id="an-empty-list-means-no-pods"),
        pytest.param(
            b"apiVersion: v1\nkind: Pod\n", {"default/old-n1"}, "InvalidPod", id="a-broken-pod-changes-nothing"
        ),
        pytest.param(said(BAD), {"default/old-n1"}, "InvalidPod", id="one-broken-pod-refuses-the-list"),
        pytest.param(said([1]), {"default/old-n1"}, "NotAPod", id="a-list-of-something"),
        pytest.param(
            said({**PODS, "items": [pod("a"), pod("a")]}), {"default/old-n1"}, "DuplicatePodName", id="a-name-twice"
        ),
        pytest.param(b"\xff", {"default/old-n1"}, "NotText", id="no-text"),
        pytest.param(ManifestsUnreadable("503"), {"default/old-n1"}, "ManifestURLUnreadable", id="a-server-in-trouble"),
    ],
)
async def test_what_a_url_lists_after_an_old_pod(answer: bytes | Exception, names: set[str], reason: str) -> None:
    """The second look counts; the first gave the pod `old`."""
    _, after = await looks(said(pod("old")), answer)
    assert set(after.pods) == names
    assert [one.reason for one in after.refusals] == ([reason] if reason else [])
    assert all(one.pod_kept and one.path == "http://h/pods" for one in after.refusals)
    assert after.readable


async def test_before_the_first_answer_nothing_is_known() -> None:
    """So nothing that came from there is deleted."""
    (first,) = await looks(ManifestsUnreadable("no answer within 10 s"))
    assert not first.readable


async def test_a_pod_of_a_url_is_marked_and_named_by_it() -> None:
    """Its UID hangs on the URL and not on the node; no toleration is added."""
    (listing,) = await looks(said(pod()))
    found = listing.pods["default/web-n1"]
    assert found.source == "http"
    assert found.pod["metadata"]["annotations"]["kubernetes.io/config.source"] == "http"
    assert "tolerations" not in found.pod["spec"]
    (other,) = await looks(said(pod(image="busybox:2")))
    assert other.pods["default/web-n1"].uid != found.uid


async def test_trouble_that_is_over_is_told_no_more() -> None:
    """Also if the same bytes are returned."""
    *_, broken, after = await looks(said(pod()), ManifestsUnreadable("503"), said(pod()))
    assert broken.refusals
    assert not after.refusals
    assert set(after.pods) == {"default/web-n1"}


async def test_a_refusal_outlives_an_absence_of_its_server() -> None:
    """The bytes that come back are the refused ones, and are not read again."""
    _, bad, away, after = await looks(said(pod()), said(BAD), ManifestsUnreadable("503"), said(BAD))
    assert [one.reason for one in away.refusals] == ["InvalidPod", "ManifestURLUnreadable"]
    assert after.refusals == bad.refusals
    *_, mended = await looks(said(BAD), ManifestsUnreadable("503"), said(pod()))
    assert not mended.refusals


def test_no_credential_of_a_url_is_shown() -> None:
    """Neither user nor query."""
    assert place_of("https://user:secret@h:8/pods?token=secret") == "https://h:8/pods"


OPEN = OpenPod("pod/n1/default/web-n1/u", "http://h/pods", "http")


@pytest.mark.parametrize(
    ("listings", "free"),
    [
        pytest.param({"file": Listing(), "http": Listing()}, True, id="listed-no-more"),
        pytest.param({"file": Listing(), "http": Listing(readable=False)}, False, id="its-url-is-away"),
        pytest.param({"file": Listing(readable=False), "http": Listing()}, True, id="another-source-is-away"),
        pytest.param({"file": Listing()}, True, id="its-url-is-configured-no-more"),
    ],
)
def test_each_source_is_judged_by_itself(listings: dict[str, Listing], *, free: bool) -> None:
    """A pod whose source is not known needs all of them."""
    assert ManifestListings(listings).is_unlisted(OPEN) is free
    unknown = OpenPod(OPEN.workflow_id)
    assert ManifestListings(listings).is_unlisted(unknown) is all(one.readable for one in listings.values())


def test_a_name_of_two_sources_belongs_to_the_folder() -> None:
    """One pod of a full name at a time."""
    file, url = (static_pod(Path("/m/a.yaml"), "web", uid) for uid in ("f" * 32, "0" * 32))
    both = {"http": Listing(pods={"default/web": url}), "file": Listing(pods={"default/web": file})}
    assert ManifestListings(both).pods["default/web"] is file


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """Serve answers of all kinds, and give where."""

    async def headers(request: web.Request) -> web.Response:
        return web.Response(text=request.headers.get("Authorization", ""))

    async def large(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * 200)

    async def never(_: web.Request) -> web.Response:
        raise web.HTTPServiceUnavailable

    async def here(request: web.Request) -> web.Response:
        raise web.HTTPFound(f"http://127.0.0.1:{request.url.port}/headers")

    async def there(request: web.Request) -> web.Response:
        raise web.HTTPFound(f"http://localhost:{request.url.port}/headers")

    async def elsewhere(_: web.Request) -> web.Response:
        raise web.HTTPFound("ftp://127.0.0.1/")

    async def circle(_: web.Request) -> web.Response:
        raise web.HTTPFound("/circle")

    app = web.Application()
    for handler in (headers, large, never, here, there, elsewhere, circle):
        app.router.add_get(f"/{handler.__name__}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_headers_are_sent_and_bounds_kept(server: str) -> None:
    """Whatever a server answers."""
    auth = [("Authorization", "Bearer x")]
    assert await ManifestUrl(f"{server}/headers", auth, most_bytes=100).read() == b"Bearer x"
    for path, why in (("large", "more than 100 bytes"), ("never", "503"), ("missing", "404")):
        with pytest.raises(ManifestsUnreadable, match=why):
            await ManifestUrl(f"{server}/{path}", auth, most_bytes=100).read()
    with pytest.raises(ManifestsUnreadable):
        await ManifestUrl("http://127.0.0.1:1/", (), most_bytes=100).read()


async def test_redirects_are_followed_without_credentials_to_other_hosts(server: str) -> None:
    """As Go's client does; one to another scheme is refused, and so is a circle."""
    auth = [("Authorization", "Bearer x")]
    assert await ManifestUrl(f"{server}/here", auth, most_bytes=100).read() == b"Bearer x"
    assert await ManifestUrl(f"{server}/there", auth, most_bytes=100).read() == b""
    for path in ("elsewhere", "circle"):
        with pytest.raises(ManifestsUnreadable):
            await ManifestUrl(f"{server}/{path}", auth, most_bytes=100).read()
    with pytest.raises(ManifestsUnreadable):
        await ManifestUrl("file:///etc/hostname", (), most_bytes=100).read()


async def test_a_login_in_the_url_is_sent(server: str) -> None:
    """As a header."""
    url = server.replace("//", "//me:se%20cret@")
    assert await ManifestUrl(f"{url}/headers", (), most_bytes=100).read() == b"Basic bWU6c2UgY3JldA=="


async def test_an_answer_without_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bytes or with the time."""
    monkeypatch.setattr(manifest_url, "_BESIDE_BODY", 100_000)

    async def without_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                writer.write(b"HTTP/1.1 100 C\r\n\r\n" * 100)
                await writer.drain()

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    for serve, why in ((without_end, "HTTPException"), (silent, "no answer within 0.2 s")):
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
            url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
            limit = timedelta(seconds=0.2) if serve is silent else timedelta(seconds=PATIENCE)
            with pytest.raises(ManifestsUnreadable, match=why):
                await ManifestUrl(url, (), most_bytes=100, limit=limit).read()
