"""Is a container's termination message read safely, whatever replaces its file or its log?"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import container_pid
from tests.node.pod_story import log_path
from tests.node.tempolet_node import TempoletNode, pod_manifest

SECRET = "of-the-host-and-nobody-elses"
WAITS = "trap 'exit 3' TERM; echo up; sleep 3600 & wait"


def ending(name: str, command: str, **container: Any) -> dict[str, Any]:
    """Build a pod that exits once."""
    manifest = pod_manifest(name, command, restartPolicy="Never")
    manifest["spec"]["containers"][0] |= container
    return manifest


def last_words(node: TempoletNode, name: str) -> str:
    """Wait for the exit and return its message."""
    snapshot = node.until_pod(name, lambda one: one.lifecycle == "terminated", f"{name} ended")
    said: str = snapshot.status["containerStatuses"][0]["state"]["terminated"].get("message", "")
    node.remove(name)
    return said


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        pytest.param("echo bye >$F", "bye\n", id="plain"),
        pytest.param("dd if=/dev/zero bs=1M count=100 of=$F 2>/dev/null; echo -n end >>$F", None, id="100-megabytes"),
        pytest.param("rm -f $F; ln -sf /etc/shadow $F; ln -sf /proc/1/environ $F", "", id="a-link"),
        pytest.param("rm -f $F; mkfifo $F", "", id="a-fifo"),
        pytest.param("rm -rf $F; mkdir $F", "", id="a-folder"),
    ],
)
def test_what_a_container_does_to_its_own_file(
    node: TempoletNode, request: pytest.FixtureRequest, attack: str, said: str | None
) -> None:
    """The file is a mount, which it can fill but not replace; of a large one the tail is reported."""
    name = f"own-{request.node.callspec.id}"
    node.apply(ending(name, f"F=/dev/termination-log; {attack}; exit 1"))
    told = last_words(node, name)
    if said is None:
        assert len(told.encode()) == 4096
        assert told.endswith("end")
    else:
        assert told == said


def end_after(node: TempoletNode, name: str, attack: Callable[[PodSnapshot], None], **container: Any) -> str:
    """While it runs, replace its files as someone with write access to their folder could; then end it and return its message."""
    node.apply(ending(name, WAITS, **container))
    snapshot = node.until_running(name)
    log = log_path(node, snapshot)
    node.until(lambda: "up" in log.read_text(), "its trap set")
    attack(snapshot)
    os.kill(container_pid(node.containerd, snapshot.containers["main"].container_id), signal.SIGTERM)
    return last_words(node, name)


def replace(path: Path, kind: str, secret: Path) -> None:
    """Replace a file by something else."""
    path.unlink()
    match kind:
        case "link":
            path.symlink_to(secret)
        case "hard-link":
            path.hardlink_to(secret)
        case "fifo":
            os.mkfifo(path)


@pytest.mark.parametrize("kind", ["link", "hard-link", "fifo"])
def test_what_stands_in_the_files_place_is_not_read(node: TempoletNode, tmp_path: Path, kind: str) -> None:
    """No file of the host is disclosed, and a FIFO without a writer does not block."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)

    def attack(snapshot: PodSnapshot) -> None:
        (file,) = (node.root_dir / "pods" / snapshot.uid / "containers" / "main").iterdir()
        replace(file, kind, secret)

    assert SECRET not in end_after(node, f"file-{kind}", attack)


@pytest.mark.parametrize("kind", ["link", "hard-link", "fifo"])
def test_a_log_that_is_a_host_file_is_not_told(node: TempoletNode, tmp_path: Path, kind: str) -> None:
    """In the fallback from the message to the last lines of the log."""
    secret = tmp_path / "secret"
    secret.write_text(f"2026-11-21T12:00:00Z stdout F {SECRET}\n")

    def attack(snapshot: PodSnapshot) -> None:
        replace(log_path(node, snapshot), kind, secret)

    told = end_after(node, f"log-{kind}", attack, terminationMessagePolicy="FallbackToLogsOnError")
    assert SECRET not in told
    assert told.startswith("Error on reading termination message from logs")
