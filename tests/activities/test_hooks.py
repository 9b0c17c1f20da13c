"""Does a hook run within its grace, and is how it ended told whatever it was?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.errors import CriError
from activities.hooks import HookActivities
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.pod import Hook, PodKey
from proto.temporal.requests import HookEnded, RunHook

POD = PodKey("default", "web", "uid-1")


class Runtime:
    """Answers ExecSync with what the test says, and remembers what it was asked."""

    def __init__(self, answer: cri.ExecSyncResponse | CriError) -> None:
        self.answer = answer
        self.asked: list[tuple[str, list[str], int]] = []

    async def exec_sync(self, container_id: str, command: list[str], seconds: int = 0) -> cri.ExecSyncResponse:
        """Answer."""
        self.asked.append((container_id, command, seconds))
        if isinstance(self.answer, CriError):
            raise self.answer
        return self.answer


def hooks(answer: cri.ExecSyncResponse | CriError | None = None) -> tuple[HookActivities, Runtime]:
    """Make the activities on a runtime that answers so."""
    runtime = Runtime(answer if answer is not None else cri.ExecSyncResponse())
    services: Any = SimpleNamespace(runtime=runtime, endpoint="unix:///nowhere")
    return HookActivities(services), runtime


def post_start(**handler: Any) -> RunHook:
    """Ask for a hook whose time nobody limits."""
    return RunHook(POD, "web", "web-0", Hook.POST_START, handler, ips=("10.88.0.5",))


def pre_stop(grace: float, *, asked: float = 0, **handler: Any) -> RunHook:
    """Ask for a hook with a grace that counts from `asked` seconds ago."""
    since = datetime.now(UTC) - timedelta(seconds=asked)
    return RunHook(POD, "web", "web-0", Hook.PRE_STOP, handler, asked_at=since, grace=timedelta(seconds=grace))


async def run(acting: HookActivities, request: RunHook, attempt: int = 1) -> HookEnded:
    """Run it as Temporal would."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=attempt, heartbeat_timeout=timedelta(seconds=30))
    return await environment.run(acting.run_hook, request)


EXEC = {"exec": {"command": ["sh", "-c", "true"]}}


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


async def test_a_command_of_a_pre_stop_hook_gets_what_is_left_of_the_grace() -> None:
    """A second at the least, also when its worker was away."""
    acting, runtime = hooks()
    await run(acting, pre_stop(30, asked=10.5, **EXEC))
    await run(acting, pre_stop(30, asked=100, **EXEC))
    assert [seconds for *_, seconds in runtime.asked] == [20, 1]


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
    acting, _ = hooks()
    began = datetime.now(UTC)
    ended = await run(acting, pre_stop(1.2, sleep={"seconds": 60}))
    assert ended == HookEnded(succeeded=False, message="the grace period of 1.2 s ran out")
    assert datetime.now(UTC) - began < timedelta(seconds=3)


@pytest.mark.parametrize(
    ("handler", "message"),
    [pytest.param({}, "invalid handler: none", id="none"), pytest.param({"x": {}}, "invalid handler: x", id="unknown")],
)
async def test_a_handler_that_cannot_be_run(handler: dict[str, Any], message: str) -> None:
    """It is a failure, in the kubelet's words (TestRunHandlerNil)."""
    acting, _ = hooks()
    assert await run(acting, post_start(**handler)) == HookEnded(succeeded=False, message=message)
