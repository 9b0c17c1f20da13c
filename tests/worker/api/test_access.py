"""Is each row of the API closed to everybody without exactly its access?"""

import importlib
import inspect
import pkgutil
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from types import ModuleType
from typing import get_type_hints

import pytest
import pytest_asyncio
from aiohttp import web

import worker.api
from tests.cluster.certificates import Authority
from tests.worker.api.node_api import REFUSED, NodeApi, node_api
from worker.api.access.authorization import VERBS, RequiredAccess, required_access
from worker.api.access.route import Route
from worker.api.routes import ROUTES
from worker.node.process.dependencies import NodeDependencies

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = {
    "{podNamespace}": "default",
    "{podID}": "web",
    "{containerName}": "main",
    "{uid}": "u-1",
    "{path:.*}": "any",
    "{check}": "ping",
}
SUBRESOURCES = {"proxy", "metrics", "stats", "log", "checkpoint", "statusz", "configz", "pods", "healthz"}
EVERY_ROW = [pytest.param(row, method, id=f"{method} {row.path}") for row in ROUTES for method in row.methods]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NodeApi]:
    """Serve all rows, once for this file."""
    async with node_api(tmp_path_factory.mktemp("api")) as served:
        yield served


def path_of(row: Route) -> str:
    """Return a path that matches the row."""
    path = row.path
    for pattern, name in NAMES.items():
        path = path.replace(pattern, name)
    return path


def token_of(name: str) -> str:
    """Return a token for a user of a test."""
    return name.encode().hex()


@pytest.mark.parametrize(("row", "method"), EVERY_ROW)
async def test_a_row_is_closed_to_wrong_credentials(api: NodeApi, row: Route, method: str) -> None:
    """401 with the kubelet's message, or a failed handshake, and no SubjectAccessReview is sent."""
    path = path_of(row)
    wrong_ca = Authority.make(api.folder / "other").sign("admin", "admin", ["system:masters"])
    expired = api.authority.sign("old", "admin", ["system:masters"], lifetime=-timedelta(hours=1))
    before = api.reviews.asked["SubjectAccessReview"]
    answers = {
        "no credentials": await api.ask(path, method=method),
        "another audience": await api.ask(path, method=method, token="of another audience"),
        "basic": await api.ask(path, method=method, headers={"Authorization": "Basic YTpi"}),
    }
    assert {what: (answer.status, answer.text) for what, answer in answers.items()} == dict.fromkeys(
        answers, (401, "Unauthorized")
    )
    for certificate in (wrong_ca, expired):
        with pytest.raises(REFUSED):
            await api.ask(path, method=method, certificate=certificate)
    assert api.reviews.asked["SubjectAccessReview"] == before


@pytest.mark.parametrize(("row", "method"), EVERY_ROW)
async def test_a_row_is_closed_to_every_other_right(api: NodeApi, row: Route, method: str) -> None:
    """Neither another verb on its subresources nor its verb on other subresources is enough."""
    name, verb = f"almost {method} {row.path}", row.verb or VERBS[method]
    api.reviews.users[token_of(name)] = {"username": name, "groups": ["some"]}
    api.reviews.allow(name, verb, *SUBRESOURCES - set(row.subresources))
    for other in set(VERBS.values()) - {verb}:
        api.reviews.allow(name, other, *row.subresources)
    answer = await api.ask(path_of(row), method=method, token=token_of(name))
    wanted = " ".join(row.subresources)
    assert (answer.status, answer.text) == (
        403,
        f"Forbidden (user={name}, verb={verb}, resource=nodes, subresource(s)=[{wanted}])\n",
    )


@pytest.mark.parametrize(("row", "method"), EVERY_ROW)
async def test_a_row_opens_for_exactly_its_right(api: NodeApi, row: Route, method: str) -> None:
    """One of its subresources is enough, with a certificate as well as with a token."""
    for subresource in row.subresources:
        name = f"{method}-{subresource}-{row.path}"
        api.reviews.allow(name[:64], row.verb or VERBS[method], subresource)
        api.reviews.users[token_of(name)] = {"username": name[:64]}
        mine = api.authority.sign("mine", name[:64], ["some"])
        for let_in in (
            await api.ask(path_of(row), method=method, certificate=mine),
            await api.ask(path_of(row), method=method, token=token_of(name)),
        ):
            assert let_in.status not in {401, 403}
            assert "internal error" not in let_in.text


async def test_what_is_no_row_is_told_to_nobody_without_the_right_to_proxy(api: NodeApi) -> None:
    """Whether a path or a method exists is checked last."""
    api.reviews.users |= {"one": {"username": "one"}, "two": {"username": "two"}}
    api.reviews.allow("two", "get", "proxy")
    api.reviews.allow("two", "delete", "proxy")
    assert (await api.ask("/nothing")).status == 401
    assert (await api.ask("/nothing", token="one")).status == 403
    there_is_none = await api.ask("/nothing", token="two")
    assert (there_is_none.status, there_is_none.text) == (404, "404: Page Not Found")
    not_so = await api.ask("/metrics", method="DELETE", token="two")
    assert (not_so.status, not_so.text) == (405, "405: Method Not Allowed")


async def test_every_endpoint_has_a_row() -> None:
    """A handler without a row would be unreachable, or served past the table; a row's handler that is not found would be unchecked."""
    found = {
        one
        for module in api_modules()
        for _, one in inspect.getmembers(module, inspect.iscoroutinefunction)
        if one.__module__ == module.__name__ and list(signature_of(one)) == [web.Request, NodeDependencies]
    }
    assert found == {row.handler for row in ROUTES}


def api_modules() -> Iterator[ModuleType]:
    """Import every module of the API, in every folder."""
    for module in pkgutil.walk_packages(worker.api.__path__, f"{worker.api.__name__}."):
        yield importlib.import_module(module.name)


def signature_of(function: object) -> Iterator[object]:
    """Yield the types of a function's parameters."""
    hints = get_type_hints(function)
    hints.pop("return", None)
    yield from hints.values()


KUBELET = {
    "/pods": ("pods", "proxy"),
    "/runningpods": ("pods", "proxy"),
    "/healthz": ("healthz", "proxy"),
    "/configz": ("configz", "proxy"),
    "/stats": ("stats",),
    "/metrics": ("metrics",),
    "/logs": ("log",),
    "/checkpoint": ("checkpoint",),
    "/statusz": ("statusz",),
    "/flagz": ("configz",),
}
"""Subresources by the first part of a path, as in pkg/kubelet/server/auth.go; all others are `proxy`."""


@pytest.mark.parametrize(("row", "method"), EVERY_ROW)
async def test_a_row_asks_for_what_the_kubelet_asks(row: Route, method: str) -> None:
    """Except for what runs in containers: that is `create`, whatever the method."""
    first = "/" + row.path.split("/")[1]
    verb = "create" if first in {"/exec", "/attach", "/portForward", "/run"} else VERBS[method]
    assert required_access(method, row) == RequiredAccess(verb, KUBELET.get(first, ("proxy",)))


async def test_what_has_no_verb_has_no_row() -> None:
    """HEAD and OPTIONS require the empty verb, as in the kubelet; a path without a row requires `proxy`."""
    assert required_access("HEAD", None) == RequiredAccess("", ("proxy",))
    assert {method for row in ROUTES for method in row.methods} <= set(VERBS)
