"""Does a hook run within its grace, and is how it ended told whatever it was?"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.clients.cri_error import CriError
from activities.clients.exec_sync import ExecAnswer, cut_answer
from activities.execution.timings import Timings
from activities.hooks.hooks import HookActivities
from activities.images.access.logins import ImageLogins
from activities.images.image_pulls import ImagePulls
from activities.objects.tokens import NoTokens
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.activities.heartbeats import HookProgress
from proto.temporal.activities.requests import RunHook, StartContainer
from proto.temporal.hooks import Hook, HookEnded, HookRetry
from proto.temporal.pod import PodKey
from tests.activities.stored_objects import ObjectsInMemory

POD = PodKey("default", "web", "uid-1")


class Runtime:
    """Answers ExecSync with what the test says, and remembers what it was asked."""

    endpoint = "unix:///nowhere"

    def __init__(self, answer: cri.ExecSyncResponse | CriError) -> None:
        self.answer = answer
        self.asked: list[tuple[str, list[str], int]] = []

    async def exec_sync(self, container_id: str, command: list[str], seconds: int, *, keep: slice) -> ExecAnswer:
        """Answer."""
        self.asked.append((container_id, command, seconds))
        if isinstance(self.answer, CriError):
            raise self.answer
        return cut_answer(self.answer.SerializeToString(), keep)


def hooks(
    answer: cri.ExecSyncResponse | CriError | None = None, timings: Timings | None = None
) -> tuple[HookActivities, Runtime]:
    """Make the activities on a runtime that answers so."""
    runtime = Runtime(answer if answer is not None else cri.ExecSyncResponse())
    services: Any = SimpleNamespace(runtime=runtime, timings=timings or Timings())
    return HookActivities(services), runtime


def post_start(**handler: Any) -> RunHook:
    """Build the request of a hook without a time limit."""
    return RunHook(POD, "web", "web-0", Hook.POST_START, handler, ips=("10.88.0.5",))


def pre_stop(grace: float, *, asked: float = 0, **handler: Any) -> RunHook:
    """Ask for a hook with a grace that counts from `asked` seconds ago."""
    since = datetime.now(UTC) - timedelta(seconds=asked)
    return RunHook(POD, "web", "web-0", Hook.PRE_STOP, handler, asked_at=since, grace=timedelta(seconds=grace))


async def run(acting: HookActivities, request: RunHook, attempt: int = 1, details: Sequence[Any] = ()) -> HookEnded:
    """Run it as Temporal would."""
    environment = ActivityEnvironment()
    thirty = timedelta(seconds=30)
    environment.info = replace(environment.info, attempt=attempt, heartbeat_timeout=thirty, heartbeat_details=details)
    return await environment.run(acting.run_hook, request)


EXEC: dict[str, Any] = {"exec": {"command": ["sh", "-c", "true"]}}


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        pytest.param(cri.ExecSyncResponse(exit_code=0, stdout=b"x"), HookEnded(succeeded=True), id="exit-0"),
        pytest.param(
            cri.ExecSyncResponse(exit_code=3, stderr=b"no such host\n"),
            HookEnded(succeeded=False, message="exit code 3: no such host"),
            id="exit-3-with-what-it-said",
        ),
        pytest.param(
            cri.ExecSyncResponse(exit_code=1), HookEnded(succeeded=False, message="exit code 1"), id="exit-1-in-silence"
        ),
        pytest.param(
            cri.ExecSyncResponse(exit_code=1, stdout=b"a" * 9000 + b"\xff"),
            HookEnded(succeeded=False, message=f"exit code 1: {'a' * 1023}\N{REPLACEMENT CHARACTER}"),
            id="only-the-end-of-long-output",
        ),
        pytest.param(
            CriError("ExecSync", grpc.StatusCode.UNKNOWN, "executable file not found in $PATH"),
            HookEnded(succeeded=False, message="executable file not found in $PATH"),
            id="no-such-command",
        ),
        pytest.param(
            CriError("ExecSync", grpc.StatusCode.NOT_FOUND, "no container web-0"),
            HookEnded(succeeded=False, message="no container web-0"),
            id="no-such-container",
        ),
    ],
)
async def test_exec(answer: cri.ExecSyncResponse | CriError, ended: HookEnded) -> None:
    """The exit code says it (TestRunHandlerExec, TestRunHandlerExecFailure)."""
    acting, runtime = hooks(answer)
    assert await run(acting, post_start(**EXEC)) == ended
    assert runtime.asked == [("web-0", ["sh", "-c", "true"], 0)]


async def test_the_runtime_ends_no_command_of_a_pre_stop_hook_with_the_grace() -> None:
    """Only long after it; a time limit of its own counts as it is."""
    acting, runtime = hooks()
    await run(acting, pre_stop(30, asked=10.01, **EXEC))
    await run(acting, pre_stop(30, asked=100, **EXEC))
    await run(acting, replace(pre_stop(30, **EXEC), timeout=timedelta(seconds=5)))
    assert [seconds for *_, seconds in runtime.asked] == [620, 601, 5]


class HangingRuntime(Runtime):
    """Its command ends when the test says so."""

    def __init__(self) -> None:
        super().__init__(cri.ExecSyncResponse())
        self.container_ended = asyncio.Event()
        self.how = asyncio.get_running_loop().create_future()

    async def exec_sync(self, *_: Any, **__: Any) -> ExecAnswer:
        """Wait, and remember how the wait ended."""
        try:
            await self.container_ended.wait()
        except asyncio.CancelledError:
            self.how.set_result("cancelled")
            raise
        self.how.set_result("ended with its container")
        raise CriError("ExecSync", grpc.StatusCode.UNKNOWN, "killed")


@pytest.mark.parametrize(
    ("request_", "message", "how"),
    [
        pytest.param(
            pre_stop(30, **EXEC),
            "the grace period of 30 s ran out",
            "ended with its container",
            id="by-the-grace-it-lives-on",
        ),
        pytest.param(
            replace(pre_stop(30, **EXEC), timeout=timedelta(seconds=0.1)),
            "timed out after 0.1 s",
            "cancelled",
            id="by-its-own-limit-it-is-ended",
        ),
    ],
)
async def test_a_command_that_does_not_return(request_: RunHook, message: str, how: str) -> None:
    """The kubelet leaves it to the end of its container; the stop goes on at once."""
    runtime = HangingRuntime()
    services: Any = SimpleNamespace(runtime=runtime, timings=Timings())
    asked = 29.9 if request_.timeout is None else 0  # seconds before this test, not before the rows were made
    request_ = replace(request_, asked_at=datetime.now(UTC) - timedelta(seconds=asked))
    assert await run(HookActivities(services), request_) == HookEnded(succeeded=False, message=message)
    await asyncio.sleep(0)
    assert runtime.how.done() is (how == "cancelled")
    runtime.container_ended.set()
    assert await runtime.how == how


async def test_a_runtime_that_is_away_is_asked_again_by_temporal() -> None:
    """And the answer says that an earlier try may have run the hook."""
    acting, runtime = hooks(CriError("ExecSync", grpc.StatusCode.UNAVAILABLE, "connection refused"))
    with pytest.raises(ApplicationError) as away:
        await run(acting, post_start(**EXEC))
    assert (away.value.type, away.value.non_retryable) == ("RuntimeUnavailable", False)
    runtime.answer = cri.ExecSyncResponse()
    assert await run(acting, post_start(**EXEC), attempt=2) == HookEnded(succeeded=True, again=True)


async def test_sleep() -> None:
    """As long as it says."""
    acting, _ = hooks()
    assert await run(acting, post_start(sleep={"seconds": 0})) == HookEnded(succeeded=True)


async def test_a_grace_that_runs_out_ends_the_hook() -> None:
    """The stop then goes on."""
    cut_short: list[int] = []
    acting, _ = hooks(timings=Timings(sleep_ended_early=lambda: cut_short.append(1)))
    began = datetime.now(UTC)
    ended = await run(acting, pre_stop(1.2, sleep={"seconds": 60}))
    assert ended == HookEnded(succeeded=False, message="the grace period of 1.2 s ran out")
    assert cut_short == [1]
    assert datetime.now(UTC) - began < timedelta(seconds=30)


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        pytest.param({}, "invalid handler: none", id="none"),
        pytest.param({"tcpSocket": {"port": 80}}, "invalid handler: tcpSocket", id="tcp-socket"),
    ],
)
async def test_a_handler_that_cannot_be_run(handler: dict[str, Any], message: str) -> None:
    """It is a failure, in the kubelet's words (TestRunHandlerNil)."""
    acting, _ = hooks()
    assert await run(acting, post_start(**handler)) == HookEnded(succeeded=False, message=message)


class Server:
    """A server on loopback that answers so, and remembers what it was asked."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; one that is no HTTP is told so in plain HTTP."""
        self.asked.append((await reader.read(65536)).decode(errors="replace"))
        writer.write(self.answer)
        await writer.drain()
        writer.close()


async def get(server: Server, timings: Timings | None = None, **action: Any) -> HookEnded:
    """Run a hook that asks this server by the name of its port."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        handler = {"path": "/ready", "port": "web", "scheme": "HTTP", **action}
        asked = replace(
            post_start(httpGet=handler), ips=("127.0.0.1",), ports=({"name": "web", "containerPort": port},)
        )
        return await run(hooks(timings=timings)[0], asked)


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "503 Service Unavailable", "302 Found"])
async def test_any_answer_to_a_get_is_success(status: str) -> None:
    """The kubelet looks at no status (TestRunHandlerHttp)."""
    server = Server(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
    assert await get(server, httpHeaders=[{"name": "X-Token", "value": "t"}]) == HookEnded(succeeded=True)
    (asked,) = server.asked
    assert asked.startswith("GET /ready HTTP/1.1\r\n")
    assert "X-Token: t" in asked
    assert "User-Agent: kube-lifecycle/1.36" in asked


async def test_an_https_hook_of_a_plain_server_is_asked_in_plain_http() -> None:
    """Without its Authorization (TestRunHandlerHttpsFailureFallback)."""
    server = Server(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    headers = [{"name": "Authorization", "value": "secret"}, {"name": "X-Token", "value": "t"}]
    counted: list[int] = []
    timings = Timings(hook_fell_back=lambda: counted.append(1))
    assert await get(server, timings, scheme="HTTPS", httpHeaders=headers) == HookEnded(succeeded=True)
    assert counted == [1]
    assert "X-Token: t" in server.asked[-1]
    assert "secret" not in server.asked[-1]


async def test_a_get_that_nobody_answers_fails() -> None:
    """With the reason (TestRunHandlerHttpFailure); so does a port that has no such name."""
    acting, _ = hooks()
    refused = await run(acting, replace(post_start(httpGet={"path": "/", "port": 1}), ips=("127.0.0.1",)))
    assert not refused.succeeded
    assert "connection refused" in refused.message
    unnamed = await run(acting, post_start(httpGet={"path": "/", "port": "x"}))
    assert (unnamed.succeeded, unnamed.message) == (False, "port x not found")


RETRY = HookRetry(3, timedelta(seconds=1), 2, timedelta(seconds=9))
REFUSED = cri.ExecSyncResponse(exit_code=1)


def progress(failed: int) -> list[Any]:
    """What the try before has left, as Temporal gives it to the next one."""
    return [{"doing": "postStart of web", "failed": failed}]


@pytest.mark.parametrize(
    ("attempt", "details", "ended"),
    [
        pytest.param(3, progress(2), HookEnded(succeeded=False, message="exit code 1", tries=3), id="the-last-try"),
        pytest.param(
            4, progress(2), HookEnded(succeeded=False, message="exit code 1", again=True, tries=3), id="one-was-lost"
        ),
        pytest.param(2, progress(1), None, id="one-is-left"),
        pytest.param(3, progress(1), None, id="a-lost-one-does-not-count"),
    ],
)
async def test_a_hook_is_tried_as_often_as_it_may_fail(
    attempt: int, details: list[Any], ended: HookEnded | None
) -> None:
    """Known failures count, and are reported; other attempts have an unknown outcome."""
    acting, _ = hooks(REFUSED)
    request = replace(post_start(**EXEC), retry=RETRY)
    if ended is None:
        with pytest.raises(ApplicationError, match="exit code 1") as again:
            await run(acting, request, attempt, details)
        assert (again.value.type, again.value.non_retryable) == ("HookFailed", False)
    else:
        assert await run(acting, request, attempt, details) == ended


async def test_what_a_failed_try_leaves_to_the_next() -> None:
    """It goes out with the failure."""
    left: list[Any] = []
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=1, heartbeat_timeout=timedelta(seconds=30))
    environment.on_heartbeat = left.append
    acting, _ = hooks(REFUSED)
    with pytest.raises(ApplicationError):
        await environment.run(acting.run_hook, replace(post_start(**EXEC), retry=RETRY))
    assert left == [HookProgress("postStart of web of default/web", 1)]


async def test_a_pull_for_a_hook_does_not_hide_how_often_the_hook_has_failed() -> None:
    """A worker that is killed while it lasts leaves the number to the next."""
    left: list[Any] = []
    enough = asyncio.Event()

    class Slow(Runtime):
        async def list_containers(self, _: object) -> list[cri.Container]:
            return []

        async def image_status(self, _: str) -> None:
            """Have no image."""

        async def pull_image(self, _: str) -> str:
            await enough.wait()
            raise CriError("PullImage", grpc.StatusCode.NOT_FOUND, "no such image")

    def hear(details: Any) -> None:
        left.append(details)
        if len(left) == 5:
            enough.set()

    services: Any = SimpleNamespace(
        runtime=Slow(cri.ExecSyncResponse()),
        pulls=ImagePulls(),
        pull_rights=None,
        pull_started=lambda _: None,
        logins=ImageLogins(),
        objects=ObjectsInMemory(),
        tokens=NoTokens(),
    )
    helper = StartContainer(POD, "s", 0, "", {"name": "web", "image": "tool:1", **EXEC["exec"]}, {})
    request = RunHook(POD, "web", "", Hook.PRE_START, EXEC, sandbox_id="s", helper=helper)
    environment = ActivityEnvironment()
    soon = timedelta(milliseconds=30)
    environment.info = replace(environment.info, attempt=2, heartbeat_timeout=soon, heartbeat_details=progress(1))
    environment.on_heartbeat = hear
    ended = await environment.run(HookActivities(services).run_hook, request)
    assert (ended.message, ended.tries) == ("ErrImagePull: no such image", 2)
    assert left == [HookProgress("preStart of web of default/web", 1)] * len(left)


async def test_no_try_begins_that_the_grace_leaves_no_time_for() -> None:
    """A stop waits for it."""
    acting, _ = hooks(REFUSED)
    request = replace(pre_stop(30, asked=29.5, **EXEC), retry=RETRY)
    assert (await run(acting, request)).message == "exit code 1"


async def test_a_timeout_ends_a_try() -> None:
    """Sooner than the grace, which is its limit otherwise."""
    acting, runtime = hooks()
    limited = replace(pre_stop(30, asked=0, **EXEC), timeout=timedelta(seconds=3))
    await run(acting, limited)
    assert [seconds for *_, seconds in runtime.asked] == [3]
    asleep = replace(post_start(sleep={"seconds": 60}), timeout=timedelta(milliseconds=10))
    assert (await run(acting, asleep)).message == "timed out after 0.01 s"
