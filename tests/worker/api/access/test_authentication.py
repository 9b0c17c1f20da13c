"""Does the API determine users from certificates and tokens as the kubelet does, and ask the API server no more than needed?"""

import asyncio
import io
import json
from datetime import timedelta
from pathlib import Path

import pytest
import structlog

from activities.clients.api_server.kubeconfig import Material
from tests.cluster.certificates import Authority
from tests.patience import PATIENCE
from tests.waiting import until
from tests.worker.api.node_api import REFUSED, NodeApi, client_context, node_api
from worker.api.access import rate_limited_log, review
from worker.api.access.authentication import bearer_token, check_authentication
from worker.api.access.timed_cache import TASK_NAME, TimedCache
from worker.api.access.users import ANONYMOUS_USER, User
from worker.daemon.config import Logging
from worker.daemon.logs import set_up_logs
from worker.settings.cluster import Authentication, Authorization, Serving
from worker.settings.kubelet.configuration import ConfigurationRefused

ALICE = {"username": "alice", "uid": "u1", "groups": ["dev"], "extra": {"Scopes.example.com/X": ["a", "b"]}}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without pauses."""
    monkeypatch.setattr(review, "_FIRST_WAIT", timedelta(0))


async def test_a_user_is_passed_on_as_the_review_told_it(tmp_path: Path) -> None:
    """Including the group of authenticated users; names of extras in lower case, as the API requires."""
    async with node_api(tmp_path) as api:
        api.reviews.users["t"] = ALICE
        api.reviews.allow("alice", "get", "configz")
        assert (await api.ask("/configz", token="t")).status == 200
        assert api.reviews.specs == [
            {"token": "t"},
            {
                "user": "alice",
                "uid": "u1",
                "groups": ["dev", "system:authenticated"],
                "extra": {"scopes.example.com/x": ["a", "b"]},
                "resourceAttributes": {
                    "verb": "get",
                    "version": "v1",
                    "resource": "nodes",
                    "subresource": "configz",
                    "name": "n1",
                },
            },
        ]


async def test_what_was_answered_is_kept(tmp_path: Path) -> None:
    """Allowed and denied, by token and by user; twenty concurrent requests send one review."""
    async with node_api(tmp_path) as api:
        api.reviews.users["t"] = ALICE
        api.reviews.allow("alice", "get", "configz")
        answers = await asyncio.gather(*(api.ask("/configz", token="t") for _ in range(20)))
        assert {one.status for one in answers} == {200}
        assert api.reviews.asked == {"TokenReview": 1, "SubjectAccessReview": 1}
        for _ in range(2):
            assert (await api.ask("/pods", token="t")).status == 403
            assert (await api.ask("/pods", token="wrong")).status == 401
        assert api.reviews.asked == {"TokenReview": 2, "SubjectAccessReview": 3}  # pods and proxy


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_an_api_server_in_trouble_lets_nobody_in(tmp_path: Path, status: int) -> None:
    """A token is then invalid (401) and access is undecided (503, which names what is unavailable and what to do).

    Nothing is cached.
    """
    async with node_api(tmp_path) as api:
        api.reviews.status = status
        api.reviews.users["t"] = ALICE
        assert (await api.ask("/configz", token="t")).text == "Unauthorized"
        assert api.reviews.asked == {"TokenReview": 5}
        me = api.authority.sign("me", "alice")
        refused = await api.ask("/configz", certificate=me)
        assert (refused.status, json.loads(refused.text)) == (
            503,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "Authorization error (user=alice, verb=get, resource=nodes, subresource=configz): "
                "the API server does not answer; retry",
                "reason": "ServiceUnavailable",
                "code": 503,
            },
        )
        api.reviews.status = 0
        api.reviews.allow("alice", "get", "configz")
        assert (await api.ask("/configz", token="t")).status == 200
        assert (await api.ask("/configz", certificate=me)).status == 200


async def test_a_review_that_is_refused_is_not_tried_again(tmp_path: Path) -> None:
    """Repeating does not help a node that may not create reviews (403); the client is told where to find the reason."""
    async with node_api(tmp_path) as api:
        api.reviews.status = 403
        assert (await api.ask("/configz", token="t")).status == 401
        refused = await api.ask("/configz", certificate=api.authority.sign("me", "alice"))
        assert refused.status == 503
        assert "does not review it, and this node's log has the reason; retry" in refused.text
        assert api.reviews.asked == {"TokenReview": 1, "SubjectAccessReview": 1}


async def test_no_token_is_logged_however_much_is(tmp_path: Path, logs_restored: None) -> None:  # noqa: ARG001 - for its end
    """CVE-2019-11250, CVE-2020-8565: neither a client's nor the node's own, whatever the reviews and the server answer."""
    said = io.StringIO()
    set_up_logs(Logging(verbosity=10), said, changeable=True)
    own = Material(data=b"nodes-cAnArY")
    async with node_api(tmp_path, token=own) as api:
        api.reviews.users["cAnArY"] = ALICE
        api.reviews.allow("alice", "get", "configz")
        assert (await api.ask("/configz", token="cAnArY")).status == 200
        assert (await api.ask("/pods", token="cAnArY")).status == 403
        assert (await api.ask("/pods", token="wrong-cAnArY")).status == 401
        await said_on_the_wire(api, b"GET /pods HTTP/1.1\r\nAuthorization : Bearer cAnArY\r\n\r\n")
        api.reviews.status = 500
        assert (await api.ask("/pods", token="other-cAnArY")).status == 401
        assert api.reviews.tokens == {"Bearer nodes-cAnArY"}
    assert "Unable to authenticate the request" in said.getvalue()
    assert "cAnArY" not in said.getvalue()


async def said_on_the_wire(api: NodeApi, request: bytes) -> None:
    """Send what is no proper HTTP, and wait until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port, ssl=client_context(), server_hostname="")
    writer.write(request)
    await asyncio.wait_for(reader.read(), PATIENCE)
    writer.transport.abort()


async def test_a_client_that_vanishes_does_not_take_the_answer_along() -> None:
    """Other requests wait for the same review."""
    held, asked = asyncio.Event(), 0

    async def ask() -> tuple[str, timedelta]:
        nonlocal asked
        asked += 1
        await held.wait()
        return "alice", timedelta(minutes=1)

    kept: TimedCache[str] = TimedCache(10, lambda: 0.0)
    first, second = (asyncio.create_task(kept.get("t", ask)) for _ in range(2))
    await asyncio.sleep(0)  # both wait
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    held.set()
    assert (await second, asked, len(kept)) == ("alice", 1, 1)


async def test_a_flood_of_tokens_holds_up_no_known_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrent reviews are limited, and those of access have slots of their own."""
    monkeypatch.setattr(review, "AT_ONCE", 3)
    async with node_api(tmp_path) as api:
        api.reviews.allow("alice", "get", "configz")
        api.reviews.held_kinds, api.reviews.held = {"TokenReview"}, asyncio.Event()
        flood = [asyncio.create_task(api.ask("/configz", token=f"t{one}")) for one in range(20)]
        await until(lambda: api.reviews.asked["TokenReview"] == 3)
        assert (await api.ask("/configz", certificate=api.authority.sign("me", "alice"))).status == 200
        assert api.reviews.asked["TokenReview"] == 3
        api.reviews.held.set()
        assert {one.status for one in await asyncio.gather(*flood)} == {401}


async def test_clients_that_vanish_leave_no_question_behind(tmp_path: Path) -> None:
    """Otherwise clients that connect with any token and disconnect would pile up reviews while the API server is slow."""
    async with node_api(tmp_path) as api:
        api.reviews.held = asyncio.Event()
        vanishing = [asyncio.create_task(api.ask("/configz", token=f"t{one}")) for one in range(50)]
        await until(lambda: len([one for one in asyncio.all_tasks() if one.get_name() == TASK_NAME]) == len(vanishing))
        for one in vanishing:
            one.cancel()
        await asyncio.gather(*vanishing, return_exceptions=True)
        await until(lambda: not [one for one in asyncio.all_tasks() if one.get_name() == TASK_NAME])
        api.reviews.held.set()


async def test_whoever_is_not_let_in_does_not_fill_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line per interval, with the number of suppressed ones."""
    monkeypatch.setattr(rate_limited_log, "INTERVAL", 3600.0)
    other = Authority.make(tmp_path / "other").sign("x", "admin")
    async with node_api(tmp_path) as api:
        with structlog.testing.capture_logs() as told:
            for _ in range(20):
                with pytest.raises(REFUSED):
                    await api.ask("/configz", certificate=other)
    lines = [one for one in told if one["event"] == "A client certificate was refused"]
    assert [one["notTold"] for one in lines] == [0]


async def test_anonymous_is_for_those_who_show_nothing(tmp_path: Path) -> None:
    """Invalid credentials are refused, not taken for none: a certificate by an alert, a token by 401."""
    authority = Authority.make(tmp_path / "authority")
    access = Authentication(anonymous=True, client_ca_file=authority.folder / "ca.crt")
    async with node_api(tmp_path, authentication=access) as api:
        api.reviews.allow(ANONYMOUS_USER.name, "get", "configz")
        assert (await api.ask("/configz")).status == 200
        assert api.reviews.specs[-1]["groups"] == ["system:unauthenticated"]
        assert (await api.ask("/configz", token="wrong")).status == 401
        other = Authority.make(tmp_path / "other").sign("x", "system:anonymous")
        with pytest.raises(REFUSED):
            await api.ask("/configz", certificate=other)


async def test_a_token_is_not_read_behind_a_certificate_that_does_not_count(tmp_path: Path) -> None:
    """The handshake ends first; the kubelet would accept the token."""
    async with node_api(tmp_path) as api:
        api.reviews.users["t"] = ALICE
        api.reviews.allow("alice", "get", "configz")
        other = Authority.make(tmp_path / "other").sign("x", "admin", ["system:masters"])
        with pytest.raises(REFUSED):
            await api.ask("/configz", token="t", certificate=other)
        assert not api.reviews.asked


async def test_without_the_webhook_tokens_are_nothing(tmp_path: Path) -> None:
    """And no review is sent."""
    async with node_api(tmp_path, authentication=Authentication(webhook=False)) as api:
        assert (await api.ask("/configz", token="t")).status == 401
        assert not api.reviews.asked


async def test_always_allow_asks_nobody_what_one_may(tmp_path: Path) -> None:
    """Authentication is still required."""
    async with node_api(tmp_path, serving=Serving(authorization=Authorization(always_allow=True))) as api:
        assert (await api.ask("/configz")).status == 401
        assert (await api.ask("/configz", certificate=api.authority.sign("me", "me"))).status == 200
        assert not api.reviews.asked


def test_a_node_that_nobody_could_enter_is_refused() -> None:
    """Before anything is served, as by the kubelet."""
    with pytest.raises(ConfigurationRefused, match="no way to authenticate"):
        check_authentication(Authentication(webhook=False))
    check_authentication(Authentication())


@pytest.mark.parametrize(
    ("header", "token"),
    [
        pytest.param("Bearer a", "a", id="a-token"),
        pytest.param("bearer a", "a", id="in-small-letters"),
        pytest.param("  Bearer a  ", "a", id="blanks-around"),
        pytest.param("Bearer a b", "a", id="more-words"),
        pytest.param("Bearer  a", "", id="two-blanks"),
        pytest.param("Bearer", "", id="none"),
        pytest.param("Basic a", "", id="another-way"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_bearer_token_is_read_as_the_kubelet_reads_it(header: str, token: str) -> None:
    """The rows are those of apiserver request/bearertoken."""
    assert bearer_token(header) == token


def test_groups_of_an_authenticated_user() -> None:
    """Added once, and not for the anonymous user."""
    assert User("a").authenticated().groups == ("system:authenticated",)
    assert User("a").authenticated().authenticated().groups == ("system:authenticated",)
    assert ANONYMOUS_USER.authenticated() is ANONYMOUS_USER
