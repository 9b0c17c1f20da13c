"""What does `tempolet up` say of pods that do not run, and of other settings, while a node runs?"""

import io
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from proto.pod_snapshot import read_snapshots
from tests.node.conftest import BUSYBOX
from tests.node.standalone.standalone_node import POD, manifest, silent, standalone_node
from tests.waiting import wait_until
from worker.standalone.progress import Progress
from worker.standalone.settings import Settings
from worker.standalone.up import PODS_WITHIN, UpFailed, up


@pytest.fixture(scope="module")
def shared_node(slot: int, node_dir: Path) -> Iterator[Settings]:
    """Run a node without pods; the tests are not about its start."""
    with standalone_node(slot, node_dir) as settings:
        up(settings, [], silent())
        yield settings


@pytest.fixture
def node(shared_node: Settings) -> Iterator[Settings]:
    """Return the node; its pods are gone after the test."""
    yield shared_node
    for path in shared_node.manifests.iterdir():
        path.unlink()
    wait_until(lambda: not read_snapshots(shared_node.root_dir), "no pod is left")


def test_a_refused_manifest_is_named_and_the_other_pod_runs(node: Settings, tmp_path: Path) -> None:
    """`up` returns the reason instead of waiting, and the given pod runs."""
    manifest(node.manifests, "bad", POD.replace("containers:", "container:"))
    shown = Progress(Console(file=(output := io.StringIO()), width=200))
    assert up(node, [manifest(tmp_path, "web")], shown) == []
    assert "does not run bad.yaml: " in output.getvalue()
    assert [pod.name for pod in read_snapshots(node.root_dir) if pod.phase == "Running"] == ["web-n1"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param((f"image: {BUSYBOX}", "image: 127.0.0.1:1/nobody:1"), "ErrImagePull|ImagePullBackOff", id="pull"),
        pytest.param(
            (
                "  containers:\n  - name: main",
                "  volumes: [{name: v, configMap: {name: absent}}]\n  containers:\n  - name: main\n    volumeMounts: [{name: v, mountPath: /v}]",
            ),
            "FailedMount",
            id="mount",
        ),
        pytest.param(("command: [sh", "command: [/nowhere"), "RunContainerError|CrashLoopBackOff", id="start"),
    ],
)
def test_a_pod_that_says_why_it_does_not_run_is_not_waited_for(
    node: Settings, tmp_path: Path, change: tuple[str, str], reason: str
) -> None:
    """Each `up` reports it, the first and the second; only the one that was given its manifest counts it as missing."""
    until = time.monotonic() + PODS_WITHIN.total_seconds()
    (words,) = up(node, [manifest(tmp_path, "bad", POD.replace(*change)), manifest(tmp_path, "web")], silent())
    assert re.fullmatch(rf"default/bad-n1 is \w+ \(({reason}): .*\)", words)
    shown = Progress(Console(file=(output := io.StringIO()), width=200))
    assert up(node, [], shown) == []
    assert "does not run default/bad-n1" in output.getvalue()
    assert time.monotonic() < until


def test_other_settings_are_refused_while_a_node_runs(node: Settings, tmp_path: Path) -> None:
    """Otherwise half the node would have new settings and half old ones."""
    other = Settings(state_dir=tmp_path, run_dir=node.run_dir)
    with pytest.raises(UpFailed, match=r"with other settings \(state_dir, .*\): run `tempolet down` first"):
        up(other, [], silent())
    assert not any(tmp_path.iterdir()), "the other folder is not touched"
