"""Do `explain` and `skip-backoff` report the truth, also if no worker answers?"""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from proto.node_runtime import NodeRuntime, write_node_runtime
from proto.refusals import Refusal, write_refusals
from proto.temporal import names
from proto.temporal.pod import NodeSettings
from tests.patience import PATIENCE
from tests.worker.commands.test_reading_commands import Commands, listed, tempolet
from tests.workflows.conftest import Node, client, node, pod_json
from worker.commands.access.exits import Exit
from worker.commands.access.temporal_access import no_worker
from worker.commands.change.updates import operator

__all__ = ["client", "node", "tempolet"]  # fixtures of other files

SLOW = NodeSettings(host_ips=("192.0.2.1",))
REFUSED = Refusal("/m/web.yaml", "InvalidManifest", "spec.volumes: not supported yet", "2026-11-21T12:00:00Z")


async def test_a_crash_loop_is_explained_and_skipped(node: Node, client: Client, tempolet: Commands) -> None:
    """The explanation names a remedy; the remedy works, reports its effect, and the history shows who asked."""
    name = f"default/{node.name}"
    pod = pod_json(name=node.name)
    handle = await node.crash_loop(pod, SLOW)
    await listed(client, node, 1)
    code, out, _ = await tempolet("explain", name)
    assert code == Exit.DONE
    said = out.splitlines()
    assert said[0] == f"{name} on {node.name}, UID {pod['metadata']['uid']}"
    assert said[1] == "state: Running and not ready, nothing of it runs, CrashLoopBackOff"
    assert said[2].startswith("waits for: CrashLoopBackOff: restart 2 of web at ")
    assert f", because it ended with exit 1 Error, and has ended twice; `tempolet skip-backoff {name}` ends" in said[2]
    assert said[3:] == [
        "next: if all goes as planned: start web, restart 2, then remove dead web",
        "next: if web then ends within ten minutes, it waits 20 s",
    ]
    code, _, err = await tempolet("skip-backoff", name, "api")
    assert (code, "no container 'api': it has web" in err) == (Exit.NOT_FOUND, True)
    code, out, _ = await tempolet("skip-backoff", name, "web")
    assert (code, out.startswith("CrashLoopBackOff: restart 2 of web starts now, ")) == (Exit.DONE, True)
    await node.until(pod, lambda one: one.ready and one.restarts == 2)
    code, _, err = await tempolet("skip-backoff", name)
    assert (code, f"no container of {name} waits in a back-off" in err) == (Exit.FAILED, True)
    _, out, _ = await tempolet("history", name)
    assert f"operator {operator()} skipped the back-off of web (" in out
    assert f"back-off of 10.0 s skipped by {operator()} after" in out
    await node.delete(handle)


async def test_tries_that_only_temporal_knows(node: Node, client: Client, tempolet: Commands) -> None:
    """A runtime that is down: the attempt and its last error, as text and as JSON."""
    pod = pod_json(name=node.name)
    away = ApplicationError("no container runtime answers", type="RuntimeUnavailable")
    node.runtime.failing[names.RUN_POD_SANDBOX] = [away] * 1000
    handle = await node.start(pod)
    await listed(client, node, 1)
    async with asyncio.timeout(PATIENCE):
        while "(try " not in (out := (await tempolet("explain", f"default/{node.name}"))[1]):
            pass
    assert "under way: run sandbox, attempt 0" in out
    assert "after RuntimeUnavailable: no container runtime answers)" in out
    assert "blocked: web waits for the sandbox, which is being made" in out
    _, out, _ = await tempolet("explain", f"default/{node.name}", "-o", "json")
    found = json.loads(out)
    assert (found["lifecycle"], found["phase"], found["gone"]) == ("sync", "Pending", "")
    assert found["tries"]["sandbox"]["number"] > 1
    assert {"kind": "underWay", "text": "run sandbox, attempt 0", "about": "sandbox"} in found["sentences"]
    node.runtime.failing[names.RUN_POD_SANDBOX] = []
    await node.delete(handle)


async def test_a_pod_that_is_gone(node: Node, client: Client, tempolet: Commands) -> None:
    """How it ended, and where its story is; nothing of it can be skipped."""
    name = f"default/{node.name}"
    pod = pod_json(name=node.name)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await node.delete(handle)
    await listed(client, node, 1)
    code, out, _ = await tempolet("explain", name)
    assert code == Exit.DONE
    assert "the pod is gone: Failed, restarts 0 (ManifestRemoved: web.yaml is gone)" in out
    assert f"`tempolet history {name}` shows what happened" in out
    code, _, err = await tempolet("skip-backoff", name)
    assert (code, f"{name} is gone" in err) == (Exit.NOT_FOUND, True)


async def test_a_workflow_that_was_terminated(node: Node, client: Client, tempolet: Commands) -> None:
    """From outside: what it had may still be there."""
    pod = pod_json(name=node.name)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await handle.terminate("a test")
    await listed(client, node, 1)
    code, out, _ = await tempolet("explain", f"default/{node.name}")
    assert (code, "its workflow was terminated from outside tempolet" in out) == (Exit.DONE, True)


@pytest.mark.parametrize("word", ["explain", "skip-backoff"])
async def test_a_pod_that_never_was(
    word: str,
    node: Node,
    client: Client,  # noqa: ARG001 - prepares Temporal
    tempolet: Commands,
) -> None:
    """Not found is an exit code of its own."""
    code, out, err = await tempolet(word, f"default/{node.name}")
    assert (code, out) == (Exit.NOT_FOUND, "")
    assert f"there is and was no pod default/{node.name}" in err


async def test_a_refused_manifest_is_the_answer(
    node: Node,
    client: Client,  # noqa: ARG001 - prepares Temporal
    tempolet: Commands,
    tmp_path: Path,
) -> None:
    """Temporal does not know the pod; the poller wrote the reason. An invalid edit is shown with the running pod."""
    name = f"default/{node.name}"
    write_refusals(tmp_path, [replace(REFUSED, pod=name), replace(REFUSED, pod="default/other")])
    code, out, _ = await tempolet("explain", name, "--root-dir", str(tmp_path))
    assert code == Exit.DONE
    assert out.splitlines() == [name, "refused /m/web.yaml: InvalidManifest: spec.volumes: not supported yet"]
    code, out, _ = await tempolet("explain", name, "--root-dir", str(tmp_path), "-o", "json")
    assert json.loads(out) == {
        "pod": name,
        "remarks": ["refused /m/web.yaml: InvalidManifest: spec.volumes: not supported yet"],
    }


async def test_what_is_away_on_this_node(node: Node, client: Client, tempolet: Commands, tmp_path: Path) -> None:
    """A runtime that does not answer and a poller that does not run are reported with the pod."""
    pod = pod_json(name=node.name)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await listed(client, node, 1)
    write_refusals(tmp_path, [replace(REFUSED, pod=f"default/{node.name}", pod_kept=True)])
    write_node_runtime(tmp_path, NodeRuntime(ready=False, endpoint="unix:///r", reason="Away", message="m"))
    here = ("--root-dir", str(tmp_path), "--hostname-override", node.name)
    _, out, _ = await tempolet("explain", f"default/{node.name}", *here)
    assert out.splitlines()[1] == "state: Running and ready, web runs"
    assert out.splitlines()[-3:] == [
        (
            f"refused /m/web.yaml: InvalidManifest: spec.volumes: not supported yet (default/{node.name} continues "
            "with the last valid version)"
        ),
        "the container runtime at unix:///r is not ready: Away: m",
        "no poller runs on this node: changed manifests and exited containers go unnoticed",
    ]
    await node.delete(handle)


@pytest.mark.parametrize("word", ["explain", "skip-backoff", "evict"])
async def test_no_worker_answers(
    word: str, client: Client, tempolet: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says how to start a worker."""
    from tests.workflows.model_runtime import ModelRuntime  # noqa: PLC0415 - a node without its worker

    alone = Node(client, f"alone-{word}-{id(monkeypatch):x}", ModelRuntime())
    pod = pod_json(name=alone.name)
    handle = await alone.start(pod)
    await listed(client, alone, 1)
    monkeypatch.setattr("worker.commands.access.temporal_access.ANSWER_WITHIN", timedelta(seconds=2))
    code, out, err = await tempolet(word, f"default/{alone.name}")
    assert (code, out) == (Exit.FAILED, "")
    assert f"no worker of node {alone.name} answers" in err
    assert "answers ()" not in err
    assert ("the request is delivered when a worker starts" in err) is (word != "explain")
    assert "`tempolet up` or `systemctl start tempolet-worker`" in err
    await handle.terminate("a test")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        pytest.param(TimeoutError(), "no answer within 10 s", id="nothing-came"),
        pytest.param(RuntimeError("refused"), "refused", id="what-was-said"),
        pytest.param(KeyError(), "KeyError", id="an-error-without-words"),
    ],
)
def test_why_nobody_answers_is_said(error: Exception, why: str) -> None:
    """The reason is never empty."""
    assert no_worker("n", error).startswith(f"no worker of node n answers ({why}); ")
