"""Which endpoints does each key disable, with the kubelet's words; what does the read-only port serve.

Do /debug and /checkpoint work?
"""

import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog

from proto.pod_snapshot import pod_path
from tests.worker.api.node_api import NodeApi, node_api
from tests.worker.api.test_access import path_of
from tests.worker.poller.snapshots import snapshot, write
from worker.api.routes import ROUTES
from worker.daemon.config import Logging
from worker.daemon.logs import set_up_logs
from worker.settings.cluster import Authentication, Authorization, Serving

ANYBODY = Authentication(anonymous=True, webhook=False)
OPEN = Serving(authorization=Authorization(always_allow=True))
DISABLED = "Debug endpoints are disabled.\n"
ABSENT = "404: Page Not Found"


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[NodeApi]:
    """Serve an API without authentication."""
    flags = {"node-ip": "10.0.0.1"}
    async with node_api(tmp_path, serving=OPEN, authentication=ANYBODY, flags=flags) as served:
        yield served


@pytest.mark.parametrize(
    ("off", "method", "path", "status", "text"),
    [
        pytest.param("debugging", "GET", "/exec/a/b/c", 405, DISABLED, id="exec"),
        pytest.param("debugging", "POST", "/run/a/b/c", 405, DISABLED, id="run"),
        pytest.param("debugging", "GET", "/containerLogs/a/b/c", 405, DISABLED, id="containerLogs"),
        pytest.param("debugging", "GET", "/logs/syslog", 405, DISABLED, id="logs"),
        pytest.param("debugging", "GET", "/runningpods/", 405, DISABLED, id="runningpods"),
        pytest.param("debugging", "GET", "/debug/pprof/", 405, DISABLED, id="pprof"),
        pytest.param("debugging", "PUT", "/debug/flags/v", 404, ABSENT, id="flags-are-not-even-there"),
        pytest.param("debugging", "GET", "/configz", 404, ABSENT, id="configz-is-not-even-there"),
        pytest.param("debugging", "GET", "/statusz", 404, ABSENT, id="statusz-is-not-even-there"),
        pytest.param("debugging", "POST", "/checkpoint/a/b/c", 404, ABSENT, id="checkpoint-is-not-even-there"),
        pytest.param("debugging", "GET", "/healthz", 200, "ok", id="healthz-stays"),
        pytest.param("system_logs", "GET", "/logs/syslog", 405, "logs endpoint is disabled.\n", id="system-logs"),
        pytest.param("flags_handler", "PUT", "/debug/flags/v", 405, "flags endpoint is disabled.\n", id="flags"),
        pytest.param("profiling", "GET", "/debug/pprof/", 405, "profiling endpoint is disabled.\n", id="profiling"),
    ],
)
async def test_a_switch_closes_its_endpoints(
    tmp_path: Path, off: str, method: str, path: str, status: int, text: str
) -> None:
    """Messages and statuses are the kubelet's."""
    serving = dataclasses.replace(OPEN, **{off: False})  # type: ignore[arg-type]  # the names are fields
    async with node_api(tmp_path, serving=serving, authentication=ANYBODY) as served:
        answer = await served.ask(path, method=method)
        assert (answer.status, answer.text) == (status, text)


async def test_the_read_only_port_serves_what_is_marked_and_nothing_else(tmp_path: Path) -> None:
    """In clear text, without authentication, whatever the settings of the other port."""
    async with node_api(tmp_path, read_only=True) as served:
        for row in ROUTES:
            answer = await served.ask(path_of(row), method=row.methods[0], secure=False)
            assert (answer.text not in {ABSENT, DISABLED}) == row.read_only, row.path
        assert (await served.ask("/exec/a/b/c", secure=False)).text == DISABLED
        for path, method in {"/configz": "GET", "/checkpoint/a/b/c": "POST"}.items():
            answer = await served.ask(path, method=method, secure=False)
            assert (answer.status, answer.text) == (404, ABSENT)
        assert served.reviews.asked.total() == 0


async def test_verbosity_is_set_while_the_process_runs(api: NodeApi, logs_restored: None) -> None:  # noqa: ARG001 - for its end
    """Also for a logger that was used before."""
    set_up_logs(Logging(), changeable=True)
    log = structlog.get_logger("used before")
    log.debug("not said")
    answer = await api.ask("/debug/flags/v", method="PUT", data="4")
    assert (answer.status, answer.text) == (200, "successfully set klog.logging.verbosity to 4\n")
    assert log.is_enabled_for(10)
    await api.ask("/debug/flags/v", method="PUT", data="0")
    assert not log.is_enabled_for(10)


@pytest.mark.parametrize("said", ["", "x", "-1", "11", "4" * 3000, "0" * 9 + "11", "0" * 5000, "٤"])
async def test_what_is_no_verbosity_changes_nothing(api: NodeApi, said: str) -> None:
    """The client is told."""
    answer = await api.ask("/debug/flags/v", method="PUT", data=said.encode())
    assert answer.status == 400
    assert answer.text.startswith("failed set klog.logging.verbosity ")


async def test_flags_are_set_by_put_only(api: NodeApi) -> None:
    """406, as in the kubelet; an endless body is not read."""
    assert (await api.ask("/debug/flags/v")).status == 406
    assert (await api.ask("/debug/flags/v", method="PUT", data=b"1" * 10_000_000)).status == 413


async def test_profiles_are_those_that_python_has(api: NodeApi) -> None:
    """Stacks of tasks and threads, and the command line; Go's others do not exist."""
    assert (await api.ask("/debug/pprof/")).text == "/debug/pprof/\n\ncmdline\ngoroutine\n"
    stacks = (await api.ask("/debug/pprof/goroutine?debug=2")).text
    assert "thread MainThread:" in stacks
    assert "_accept" in stacks
    assert (await api.ask("/debug/pprof/cmdline")).text == "tempolet\0node\0--node-ip=10.0.0.1"
    assert (await api.ask("/debug/pprof/heap")).status == 404


def put_running_pod(root: Path) -> None:
    """Write a pod with one running container and one that does not run."""
    write(root, snapshot("u1", {"main": "c1 running", "other": "c2 exited"}))
    pod_path(root, "u1").write_text(json.dumps({"spec": {"containers": [{"name": "main"}, {"name": "other"}]}}))


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        pytest.param("default/none/main", 404, "pod does not exist", id="no-pod"),
        pytest.param("default/web/none", 404, "container none does not exist", id="no-container"),
        pytest.param(
            "default/web/main?timeout=1&timeout=x", 404, "cannot parse value of timeout parameter", id="no-number"
        ),
        pytest.param(
            "default/web/main?timeout=-1",
            500,
            "checkpointing of default/web/main failed (CheckpointContainer requires the timeout value to be > 0)",
            id="a-time-before-now",
        ),
        pytest.param(
            "default/web/other",
            500,
            "checkpointing of default/web/other failed (container other not found)",
            id="it-does-not-run",
        ),
        pytest.param("default/..%2fweb/main", 404, ABSENT, id="a-name-that-is-a-path"),
    ],
)
async def test_a_checkpoint_is_refused_in_the_kubelet_s_words(api: NodeApi, path: str, status: int, text: str) -> None:
    """Without a call to the runtime."""
    put_running_pod(api.around.config.root_dir)
    answer = await api.ask(f"/checkpoint/{path}", method="POST")
    assert (answer.status, answer.text) == (status, text)


async def test_what_the_runtime_says_to_a_checkpoint_is_passed_on(api: NodeApi) -> None:
    """Here, that it is unavailable."""
    put_running_pod(api.around.config.root_dir)
    answer = await api.ask("/checkpoint/default/web/main", method="POST")
    assert answer.status == 500
    assert answer.text.startswith(
        "checkpointing of default/web/main failed (ContainerStats"
    )  # asked first: how much room it needs
    assert (await api.ask("/checkpoint/default/web/main")).status == 405
