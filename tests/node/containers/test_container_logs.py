"""Are logs rotated, linked, read and followed on real containerd, and are the host's files safe from it?"""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

from proto.pod_snapshot import PodSnapshot
from tests.node.operating import tempolet
from tests.node.tempolet_node import PATIENCE, ROOT, TempoletNode, pod_manifest

TALK = "i=0; while true; do i=$((i+1)); echo line $i; usleep 5000; done"
NODE_KEYS = {
    "containerLogMaxSize": "4Ki",
    "containerLogMaxFiles": 3,
    "containerLogMonitorInterval": "3s",
    "featureGates": {"KubeletCrashLoopBackOffMax": True},
    "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
}


def folder(node: TempoletNode, pod: PodSnapshot) -> Path:
    """Return the log folder of a pod's container `main`."""
    return node.logs / f"{pod.namespace}_{pod.name}_{pod.uid}" / "main"


def logs(node: TempoletNode, pod: PodSnapshot, *words: str) -> tuple[int, str]:
    """Run `tempolet logs`."""
    return tempolet(
        node, "logs", f"{pod.namespace}/{pod.name}", "--config", str(node.directory / "kubelet.json"), *words
    )


def numbers(text: bytes) -> list[int]:
    """Return the numbers of the lines in a log of TALK."""
    return [int(line.rsplit(b" ", 1)[1]) for line in text.splitlines()]


def between_rotations(place: Path) -> bytes:
    """Read the lines of the compressed, the previous and the newest log; empty if one is being moved."""
    files = sorted(place.glob("0.log*"), key=lambda one: (one.name == "0.log", one.name))
    try:
        older, newer, newest = files
        texts = [gzip.decompress(older.read_bytes()), newer.read_bytes(), newest.read_bytes().rpartition(b"\n")[0]]
    except (ValueError, OSError):
        return b""
    unmoved = set(files) == set(place.glob("0.log*"))
    return b"\n".join(text.strip(b"\n") for text in texts) if unmoved else b""


def test_a_log_is_rotated_and_followed(node: TempoletNode, tmp_path: Path) -> None:
    """The current, the previous and a compressed log are kept; a follower misses no line; the link stays valid."""
    node.apply(pod_manifest("talks", TALK))
    pod = node.until_running("talks")
    place = folder(node, pod)
    follow = [sys.executable, "-m", "worker.cli", "logs", f"default/{pod.name}", "-f", "--root-dir", str(node.root_dir)]
    follow += ["--config", str(node.directory / "kubelet.json")]
    followed = tmp_path / "followed"
    with (
        followed.open("wb") as file,
        subprocess.Popen(follow, stdout=file, cwd=ROOT, env=dict(os.environ)) as following,
    ):
        node.until(followed.read_bytes, "the first lines followed")
        packed = node.until(lambda: list(place.glob("0.log.*.gz")), "a log rotated twice")[0]
        node.until(lambda: packed not in place.glob("0.log.*"), "the oldest gone")
        (link,) = (node.directory / "containers").glob(f"{pod.name}_default_main-*.log")
        assert link.readlink() == place / "0.log"
        node.until(link.exists, "the log there, which a rotation takes away for a moment")
        node.until(lambda: followed.read_bytes().count(b"\n") > 500, "a good many lines followed")
        node.remove("talks")
        assert following.wait(PATIENCE) == 0
    seen = numbers(followed.read_bytes())
    assert seen == list(range(seen[0], seen[0] + len(seen)))
    node.until_gone("talks")
    assert not place.exists()
    assert not link.is_symlink()


def test_no_line_is_lost_between_the_files(node: TempoletNode) -> None:
    """No number is missing between the newest files."""
    node.apply(pod_manifest("counts", TALK))
    place = folder(node, node.until_running("counts"))
    node.until(lambda: list(place.glob("0.log.*.gz")), "a log rotated twice")
    seen = numbers(node.until(lambda: between_rotations(place), "three files that no rotation has moved meanwhile"))
    assert seen == list(range(seen[0], seen[0] + len(seen)))
    node.take_away("counts")


def test_the_runs_of_a_crashing_container(node: TempoletNode) -> None:
    """The log of the previous run is shown with times; the links are removed with the pod."""
    node.apply(pod_manifest("crashes", "echo begin; echo the end; test -e /gone || exit 1"))
    pod = node.until_pod("crashes", lambda one: one.restarts >= 2 and "waiting" in json.dumps(one.status))
    code, said = logs(node, pod, "--previous", "--tail", "1", "--timestamps")
    assert code == 0
    assert said.endswith("Z the end\n")
    assert logs(node, pod, "-c", "nobody")[0] == 3
    node.take_away("crashes")
    assert list((node.directory / "containers").glob("crashes-*")) == []


def test_a_log_replaced_by_a_link_to_a_host_file(node: TempoletNode, tmp_path: Path) -> None:
    """Neither rotation nor reader follows it, it is reported once, and removed with the pod; the host's file is unchanged."""
    host = tmp_path / "shadow"
    host.write_text("root:secret\n" * 1000)
    node.apply(pod_manifest("attacks", "sleep 3600"))
    pod = node.until_running("attacks")
    log = folder(node, pod) / "0.log"
    log.unlink()
    log.symlink_to(host)
    told = "could not rotate a container's log"
    node.until(lambda: any(told in one and pod.uid in one for one in node.log("worker").splitlines()), "told")
    code, said = logs(node, pod)
    assert code == 1
    assert "is a link, so it is left alone" in said
    assert [one.name for one in log.parent.iterdir()] == ["0.log"]
    node.take_away("attacks")
    assert not log.is_symlink()
    assert host.read_text() == "root:secret\n" * 1000


def test_a_log_that_somebody_removed_is_begun_anew(node: TempoletNode) -> None:
    """The runtime reopens it at the next check."""
    node.apply(pod_manifest("tidied", "while true; do echo here; usleep 100000; done"))
    pod = node.until_running("tidied")
    log = folder(node, pod) / "0.log"
    log.unlink()
    node.until(lambda: log.exists() and log.stat().st_size, "begun anew")
    assert logs(node, pod, "--tail", "1") == (0, "here\n")
    node.take_away("tidied")
