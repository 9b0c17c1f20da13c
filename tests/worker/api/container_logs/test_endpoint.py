"""Does /containerLogs send a log, follow it across rotations, and stop when the writer or the reader is gone?"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from activities.clients.api_server.kubeconfig import Kubeconfig
from proto.pod_snapshot import ContainerSnapshot, PodSnapshot, pod_path, snapshot_path
from tests.cluster.certificates import Signed
from tests.patience import PATIENCE
from tests.waiting import until
from tests.worker.api.node_api import node_around, node_config
from tests.worker.api.open_descriptors import descriptors
from tests.worker.api.streams.streaming_ends import Served
from tests.worker.commands.test_pods_command import WEB
from tests.worker.poller.snapshots import write
from worker.api.container_logs import endpoint as container_logs
from worker.settings.cluster import Serving
from worker.settings.kubelet.feature_gates import SPLIT_LOGS_GATE, FeatureGates

RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-11-21T12:00:00Z"}}
PATH = "/containerLogs/{podNamespace}/{podID}/{containerName}"


@dataclass
class Node:
    """One node's API, its pod `web`, and the logs of its containers."""

    root: Path
    logs: Path
    api: Served
    session: aiohttp.ClientSession
    pod: PodSnapshot = WEB

    def keep(self, pod: PodSnapshot, spec: dict[str, Any] | None = None) -> None:
        """Write the pod's snapshot as the worker does."""
        self.pod = pod
        write(self.root, pod)
        if spec is not None:
            pod_path(self.root, pod.uid).write_text(json.dumps({"spec": spec}))

    def started(self, attempt: int = 0, **changes: Any) -> None:
        """Record that container main runs."""
        status = {"name": "main", "state": RUNNING, "lastState": {}, "containerID": f"containerd://c{attempt}"}
        containers = {"main": ContainerSnapshot(f"c{attempt}", "CONTAINER_RUNNING", attempt)}
        told = {"containerStatuses": [status | changes]}
        self.keep(replace(WEB, status=told, containers=containers), {"containers": [{"name": "main"}]})

    def ended(self) -> None:
        """Record that it has terminated."""
        one = replace(self.pod.containers["main"], state="CONTAINER_EXITED")
        self.keep(replace(self.pod, containers={"main": one}))

    def log(self, attempt: int = 0, container: str = "main") -> Path:
        """Return the path of a log."""
        path = self.logs / f"{self.pod.namespace}_{self.pod.name}_{self.pod.uid}" / container / f"{attempt}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def wrote(self, *lines: str, attempt: int = 0, stream: str = "stdout") -> None:
        """Write lines."""
        with self.log(attempt).open("a") as file:
            file.writelines(f"2026-11-21T12:00:00.5Z {stream} F {line}\n" for line in lines)

    def ask(self, query: str = "", pod: str = WEB.name, container: str = "main") -> Any:
        """Request a log; returns an async context manager of the response."""
        url = f"https://127.0.0.1:{self.api.port}/containerLogs/{WEB.namespace}/{pod}/{container}?{query}"
        return self.session.get(url, ssl=self.api.client_context())


@pytest.fixture
async def node(tmp_path: Path, node_certificate: Signed) -> AsyncIterator[Node]:
    """Serve the endpoint of a node with one pod."""
    async with serving_node(tmp_path, node_certificate, Serving()) as made:
        yield made


@contextlib.asynccontextmanager
async def serving_node(tmp_path: Path, node_certificate: Signed, serving: Serving) -> AsyncIterator[Node]:
    """Serve it with other settings."""
    config = node_config(tmp_path, serving, feature_gates=FeatureGates({SPLIT_LOGS_GATE: True}))
    async with contextlib.AsyncExitStack() as stack:
        around = await stack.enter_async_context(node_around(config, Kubeconfig(server="http://127.0.0.1:1")))

        async def handler(request: web.Request) -> web.StreamResponse:
            return await container_logs.handler(request, around)

        api = await stack.enter_async_context(Served(node_certificate).serving(handler, PATH))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        made = Node(config.root_dir, config.pod_logs_dir, api, session)
        made.started()
        yield made


async def text_of(asking: Any) -> tuple[int, str]:
    """Read a response to its end."""
    async with asyncio.timeout(PATIENCE), asking as answer:
        return answer.status, await answer.text()


async def test_a_log_is_sent(node: Node) -> None:
    """As plain text, both streams in the order of writing."""
    node.wrote("one")
    node.wrote("two", stream="stderr")
    async with node.ask() as answer:
        assert (answer.status, answer.content_type) == (200, "text/plain")
        assert await answer.text() == "one\ntwo\n"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        pytest.param("tailLines=1", "three\n", id="the-end"),
        pytest.param("tailLines=0", "", id="no-lines"),
        pytest.param("limitBytes=5", "one\nt", id="so-many-bytes"),
        pytest.param("stream=Stderr", "two\n", id="one-stream"),
        pytest.param("sinceTime=2026-11-21T12:00:01Z", "", id="nothing-since"),
        pytest.param("timestamps=true&tailLines=1", "2026-11-21T12:00:00.500000000Z three\n", id="with-times"),
    ],
)
async def test_what_is_asked_of_it_is_sent(node: Node, query: str, text: str) -> None:
    """The options are passed to the reader."""
    node.wrote("one")
    node.wrote("two", stream="stderr")
    node.wrote("three")
    assert await text_of(node.ask(query)) == (200, text)


async def test_a_large_log_is_sent_whole(node: Node) -> None:
    """In many batches."""
    lines = [f"{number} {'x' * 100}" for number in range(20_000)]
    node.wrote(*lines)
    assert await text_of(node.ask()) == (200, "".join(f"{line}\n" for line in lines))


async def test_a_log_is_followed_into_the_file_after_a_rotation_and_to_the_containers_end(node: Node) -> None:
    """What was written to the old file after the last read is not lost; partial lines are joined."""
    node.wrote("one")
    async with asyncio.timeout(PATIENCE), node.ask("follow=true") as answer:
        assert await answer.content.readline() == b"one\n"
        node.wrote("two")
        assert await answer.content.readline() == b"two\n"
        node.wrote("three")
        node.log().rename(node.log().with_suffix(".log.20261122-120000"))
        node.log().write_text("2026-11-21T12:00:00.5Z stdout P fo\n")
        node.wrote("ur")
        assert await answer.content.readline() == b"three\n"
        assert await answer.content.readline() == b"four\n"
        node.wrote("five")
        node.ended()
        assert await answer.content.read() == b"five\n"


async def test_following_ends_when_the_container_starts_anew(node: Node) -> None:
    """Another run has another log."""
    node.wrote("one")
    async with asyncio.timeout(PATIENCE), node.ask("follow=true") as answer:
        assert await answer.content.readline() == b"one\n"
        node.started(attempt=1)
        assert await answer.content.read() == b""


async def test_following_ends_when_the_pod_is_gone(node: Node) -> None:
    """After the last line was sent."""
    node.wrote("one")
    async with asyncio.timeout(PATIENCE), node.ask("follow=true") as answer:
        assert await answer.content.readline() == b"one\n"
        snapshot_path(node.root, WEB.uid).unlink()
        assert await answer.content.read() == b""


async def test_an_answer_begins_before_there_is_anything_to_show(node: Node) -> None:
    """So that a client sees at once that it follows."""
    node.log().touch()
    async with asyncio.timeout(PATIENCE), node.ask("follow=true") as answer:
        assert answer.status == 200


async def test_nothing_stays_of_followers_that_vanish(node: Node) -> None:
    """No file, no task, no connection."""
    node.wrote("one")
    assert (await text_of(node.ask()))[0] == 200
    await node.session.close()
    await until(lambda: not node.api.connections, "the first connection is closed")
    files, tasks = descriptors(), len(asyncio.all_tasks())
    node.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    answers = await asyncio.gather(*(node.ask("follow=true") for _ in range(50)))
    assert {await one.content.readline() for one in answers} == {b"one\n"}
    for one in answers:
        one.close()
    await until(lambda: not node.api.connections, "no connection is left")
    await until(lambda: descriptors() <= files, "no file is left")
    await until(lambda: len(asyncio.all_tasks()) <= tasks, "no task is left")
    await node.session.close()


async def test_the_run_before_is_sent(node: Node) -> None:
    """The newest one before the current run."""
    node.wrote("old", attempt=3)
    node.wrote("new", attempt=4)
    last = {"terminated": {"exitCode": 1, "containerID": "containerd://c3"}}
    node.started(attempt=4, lastState=last)
    assert await text_of(node.ask("previous=true")) == (200, "old\n")
    assert await text_of(node.ask()) == (200, "new\n")


async def test_a_log_that_is_away_for_a_moment_is_waited_for(node: Node) -> None:
    """During a rotation it is renamed and not yet created again."""
    asking = asyncio.create_task(text_of(node.ask()))
    await asyncio.sleep(0.15)
    node.wrote("late")
    assert await asking == (200, "late\n")


@pytest.mark.parametrize(
    ("pod", "container", "query", "status", "text"),
    [
        pytest.param("no", "main", "", 404, 'pod "no" does not exist', id="no-such-pod"),
        pytest.param("..%2Fweb", "main", "", 404, 'pod "../web" does not exist', id="a-path-for-a-pod"),
        pytest.param(WEB.name, "no", "", 404, f'container "no" not found in pod "{WEB.name}"', id="no-such-container"),
        pytest.param(
            WEB.name, "..%2F..%2Fetc", "", 404, f'container "../../etc" not found in pod "{WEB.name}"', id="a-path"
        ),
        pytest.param(
            WEB.name, "%22%0A%1b[31m", "", 404,
            f'container "\\"\\n\\u001b[31m" not found in pod "{WEB.name}"', id="a-name-that-paints",
        ),
        pytest.param(
            WEB.name, "main", "previous=true", 400,
            f'previous terminated container "main" in pod "{WEB.name}" not found', id="no-run-before",
        ),
        pytest.param(WEB.name, "main", "", 400, "unable to retrieve container logs for containerd://c0", id="no-file"),
        pytest.param(WEB.name, "main", "tailLines=x", 400, '{"message": "Unable to decode query."}: tailLines', id="query"),
    ],
)  # fmt: skip
async def test_what_is_not_there_is_refused(
    node: Node, pod: str, container: str, query: str, status: int, text: str
) -> None:
    """With the kubelet's status and words."""
    assert await text_of(node.ask(query, pod, container)) == (status, text)


async def test_a_link_where_a_log_belongs_is_not_followed(node: Node, tmp_path: Path) -> None:
    """Otherwise who can write there could have root read a host file."""
    secret = tmp_path / "secret"
    secret.write_text("2026-11-21T12:00:00.5Z stdout F secret\n")
    node.log().symlink_to(secret)
    status, text = await text_of(node.ask())
    assert status == 400
    assert "failed to open log file" in text
    assert "stdout" not in text


async def test_a_pod_whose_source_is_not_known_here_is_known_by_its_status(node: Node) -> None:
    """The worker writes pod.json beside the snapshot, but a missing one does not hide logs."""
    pod_path(node.root, WEB.uid).unlink()
    node.wrote("one")
    assert await text_of(node.ask()) == (200, "one\n")


async def test_of_two_pods_of_a_name_the_newer_is_meant(node: Node) -> None:
    """A static pod's successor waits while its predecessor terminates."""
    node.wrote("one")
    node.keep(replace(WEB, uid="u-0", started_at="2020-01-01T00:00:00Z"))
    assert await text_of(node.ask()) == (200, "one\n")


async def test_a_client_that_takes_nothing_is_cut_off(tmp_path: Path, node_certificate: Signed) -> None:
    """After streamingConnectionIdleTimeout; until then its buffer is bounded."""
    serving = Serving(streaming_idle=timedelta(seconds=0.5))
    async with serving_node(tmp_path, node_certificate, serving) as node:
        node.wrote(*("x" * 1000 for _ in range(40_000)))
        _, writer = await node.api.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport reads
        path = f"/containerLogs/{WEB.namespace}/{WEB.name}/main"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: node\r\n\r\n".encode())
        await until(lambda: node.api.cut_off == 1, "it is cut off")
        await until(lambda: not node.api.connections, "nothing of it is left")
        writer.transport.abort()
