"""Does `tempolet logs` print the right run of the right container, and explain why there is no log?"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proto.pod_snapshot import ContainerSnapshot, PodSnapshot, snapshot_path
from proto.refusals import Refusal, write_refusals
from tests.worker.commands.test_pods_command import WEB, keep
from worker.cli import run
from worker.commands.access.exits import Exit

RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-11-21T12:00:00Z"}}
ENDED: dict[str, Any] = {"terminated": {"exitCode": 1, "containerID": "containerd://c0"}}
CRASHED: dict[str, Any] = {"waiting": {"reason": "CrashLoopBackOff"}}


def status(name: str, state: dict[str, Any], last: dict[str, Any] | None = None, run_id: str = "c1") -> dict[str, Any]:
    """Write one container's status."""
    return {"name": name, "state": state, "lastState": last or {}, "containerID": f"containerd://{run_id}"}


class Machine:
    """A node of files: the pod's snapshot and its logs."""

    def __init__(self, directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.root, self.logs, self._capfd = directory / "kubelet", directory / "logs", capfd
        self.config = directory / "kubelet.yaml"
        self.config.write_text(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\n"
            f"podLogsDir: {self.logs}\n"
        )

    def pod(self, *statuses: dict[str, Any], attempt: int = 1, **kinds: Any) -> PodSnapshot:
        """Keep a pod's snapshot."""
        told = {"containerStatuses": list(statuses), **kinds}
        names = [one["name"] for kind in told.values() for one in kind]
        containers = {name: ContainerSnapshot("c1", "CONTAINER_RUNNING", attempt) for name in names}
        found = replace(WEB, status=told, containers=containers)
        keep(self.root, found)
        return found

    def wrote(self, container: str, attempt: int, text: str) -> Path:
        """Write a log."""
        path = self.logs / "default_web_u-1" / container / f"{attempt}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"2026-11-21T12:00:00.5Z stdout F {line}\n" for line in text.split()))
        return path

    def tempolet(self, *words: str) -> tuple[int, str, str]:
        """Run the command; answers code, stdout and stderr."""
        code = run(["logs", *words, "--root-dir", str(self.root), "--config", str(self.config)])
        said = self._capfd.readouterr()
        return code, said.out, said.err


@pytest.fixture
def machine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Machine:
    """Return a node without pods."""
    return Machine(tmp_path, capfd)


def test_the_present_run(machine: Machine) -> None:
    """With what is asked of it."""
    machine.pod(status("web", RUNNING))
    machine.wrote("web", 1, "one two three")
    assert machine.tempolet("default/web") == (Exit.DONE, "one\ntwo\nthree\n", "")
    assert machine.tempolet("default/web", "--tail", "1", "--timestamps")[1] == "2026-11-21T12:00:00.500000000Z three\n"
    assert machine.tempolet("default/web", "--limit-bytes", "5")[1] == "one\nt"
    assert machine.tempolet("default/web", "--since", "999999h")[1] == "one\ntwo\nthree\n"
    assert machine.tempolet("default/web", "--since-time", "2026-11-21T13:00:01+00:00")[1] == ""


@pytest.mark.parametrize(
    ("shown", "words", "text"),
    [
        pytest.param(status("web", RUNNING, ENDED), ("--previous",), "before\n", id="the-run-before"),
        pytest.param(
            status("web", CRASHED, {"terminated": {"containerID": "containerd://c1"}}),
            (),
            "now\n",
            id="in-a-crash-loop",
        ),
        pytest.param(
            status("web", CRASHED, {"terminated": {"containerID": "containerd://c1"}}),
            ("--previous",),
            "now\n",
            id="previous-in-a-crash-loop-is-the-last-one-too",
        ),
        pytest.param(status("web", {"terminated": {"containerID": "containerd://c1"}}), (), "now\n", id="ended"),
        pytest.param(status("web", {"terminated": {}}, ENDED), (), "before\n", id="the-last-one-did-not-start"),
    ],
)
def test_which_run_is_meant(machine: Machine, shown: dict[str, Any], words: tuple[str, ...], text: str) -> None:
    """Rows of kubelet_pods.go validateContainerLogStatus; an attempt whose name was taken has no log."""
    machine.pod(shown, attempt=3)
    machine.wrote("web", 0, "long-ago")
    machine.wrote("web", 1, "before")
    machine.wrote("web", 3, "now")
    assert machine.tempolet("default/web", *words) == (Exit.DONE, text, "")


def test_several_containers(machine: Machine) -> None:
    """The first regular container unless one is named, with a note on stderr; or all."""
    machine.pod(
        status("web", RUNNING),
        status("side", RUNNING),
        initContainerStatuses=[status("init", {"terminated": {"containerID": "containerd://c1"}})],
        ephemeralContainerStatuses=[
            {"name": "debug", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}
        ],
    )
    for name in ("web", "side", "init"):
        machine.wrote(name, 1, name)
    code, out, err = machine.tempolet("default/web")
    assert (code, out) == (Exit.DONE, "web\n")
    assert err == "of web; there are init, web, side, debug (-c, --all-containers)\n"
    assert machine.tempolet("default/web", "-c", "init")[1] == "init\n"
    code, out, err = machine.tempolet("default/web", "--all-containers")
    assert (code, out) == (Exit.DONE, "init\nweb\nside\n")
    assert "container debug of default/web has no log: it is waiting to start: ErrImagePull: its image" in err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(("default/gone",), Exit.NOT_FOUND, "no pod default/gone is on this node", id="no-pod"),
        pytest.param(
            ("default/web", "-c", "x"), Exit.NOT_FOUND, "no container x in default/web: there are web", id="no-c"
        ),
        pytest.param(("default/web", "--previous"), Exit.NOT_FOUND, "has not run before", id="no-previous"),
        pytest.param(("default/web",), Exit.NOT_FOUND, "has another podLogsDir (--config", id="no-log"),
        pytest.param(("default/web", "--tail", "-1"), Exit.USAGE, "--tail", id="a-negative-tail"),
        pytest.param(("default/web", "--limit-bytes", "0"), Exit.USAGE, "--limit-bytes", id="no-bytes"),
        pytest.param(("default/web", "--since", "0s"), Exit.USAGE, "it must be above 0s", id="since-now"),
        pytest.param(("default/web", "--since", "soon"), Exit.USAGE, "is no duration", id="since-soon"),
        pytest.param(
            ("default/web", "--since-time", "2026-11-21T12:00:00"), Exit.USAGE, "has no time zone", id="no-zone"
        ),
        pytest.param(
            ("default/web", "--since-time", "noon"),
            Exit.USAGE,
            "'noon' is not an RFC 3339 time such as 2026-11-21T",
            id="no-time",
        ),
        pytest.param(
            ("default/web", "--since", "1s", "--since-time", "2026-11-21T12:00:00Z"), Exit.USAGE, "either", id="both"
        ),
        pytest.param(("default/web", "-c", "web", "--all-containers"), Exit.USAGE, "either", id="one-and-all"),
    ],
)
def test_what_is_wrong_is_said(machine: Machine, words: tuple[str, ...], code: Exit, said: str) -> None:
    """One line that says what to do."""
    machine.pod(status("web", RUNNING))
    answered, out, err = machine.tempolet(*words)
    assert (answered, out) == (code, "")
    assert said in err


MOUNT = "MountVolume.SetUp failed for volume"


@pytest.mark.parametrize(
    ("changes", "state", "said"),
    [
        pytest.param(
            {
                "phase": "Failed",
                "reason": "Error",
                "status": {"reason": "PodOSNotSupported", "message": "Pod was rejected"},
            },
            {"waiting": {"reason": "ContainerCreating"}},
            "it will not start: the pod has Failed: PodOSNotSupported: Pod was rejected",
            id="rejected",
        ),
        pytest.param(
            {"phase": "Failed", "reason": "Evicted", "message": "too much"},
            {},
            "it will not start: the pod has Failed: Evicted: too much",
            id="failed",
        ),
        pytest.param(
            {"deleting": True, "reason": "Terminating", "message": "ManifestRemoved"},
            {"waiting": {"reason": "ContainerCreating"}},
            "it will not start: the pod is terminating: Terminating: ManifestRemoved",
            id="going",
        ),
        pytest.param(
            {"phase": "Pending", "reason": "FailedMount", "message": MOUNT},
            {"waiting": {"reason": "ContainerCreating"}},
            f"it is waiting to start: ContainerCreating; the pod: FailedMount: {MOUNT}",
            id="held-by-a-mount",
        ),
        pytest.param(
            {"phase": "Pending", "reason": "ErrImagePull", "message": "gone"},
            {"waiting": {"reason": "ErrImagePull", "message": "gone"}},
            "it is waiting to start: ErrImagePull: its image cannot be pulled: gone",
            id="its-own-reason-is-said-once",
        ),
    ],
)
def test_why_nothing_was_written(machine: Machine, changes: dict[str, Any], state: dict[str, Any], said: str) -> None:
    """The container's own reason, or the pod's, and whether waiting helps."""
    shown = {"containerStatuses": [{"name": "web", "state": state}]} | changes.pop("status", {})
    pod = {"ready": False, "status": shown, "containers": {"web": ContainerSnapshot()}} | changes
    keep(machine.root, replace(WEB, **pod))
    code, out, err = machine.tempolet("default/web")
    assert (code, out) == (Exit.FAILED, "")
    assert err == f"tempolet: container web of default/web has no log: {said}\n"


def test_a_pod_without_statuses(machine: Machine) -> None:
    """It was rejected before anything was known of its containers."""
    keep(machine.root, replace(WEB, phase="Failed", reason="NodeAffinity", status={}, containers={}))
    for words in ((), ("--all-containers",), ("-c", "web")):
        code, out, err = machine.tempolet("default/web", *words)
        assert (code, out) == (Exit.FAILED, "")
        assert "default/web has no logs: it will not start: the pod has Failed: NodeAffinity" in err


def test_a_refused_manifest(machine: Machine) -> None:
    """By the name that the pod would have, and by the one in the manifest."""
    refused = Refusal("/m/web.yaml", "InvalidPod", "spec.containers: Required value", "then", "default/web-n")
    machine.root.mkdir(parents=True)
    write_refusals(machine.root, [refused])
    for name in ("web", "web-n"):
        code, out, err = machine.tempolet(f"default/{name}", "--hostname-override", "n")
        assert (code, out) == (Exit.NOT_FOUND, "")
        said = "refused /m/web.yaml: InvalidPod: spec.containers: Required value"
        assert err == f"tempolet: no pod default/{name} is on this node: {said}\n"


def test_a_name_without_the_node_s(machine: Machine) -> None:
    """The message names the pod that exists."""
    machine.pod(status("web", RUNNING))
    keep(machine.root, replace(WEB, name="shop-n", uid="u-2"))
    code, _, err = machine.tempolet("default/shop", "--hostname-override", "N")
    assert code == Exit.NOT_FOUND
    assert err.endswith("the name of a static pod ends with its node's name: default/shop-n\n")


def test_a_log_that_is_a_link_is_not_printed(machine: Machine, tmp_path: Path) -> None:
    """The host's file stays the host's."""
    machine.pod(status("web", RUNNING))
    log = machine.wrote("web", 1, "one")
    (tmp_path / "shadow").write_text("2026-11-21T12:00:00Z stdout F secret\n")
    log.unlink()
    log.symlink_to(tmp_path / "shadow")
    code, out, err = machine.tempolet("default/web")
    assert (code, out) == (Exit.FAILED, "")
    assert "cannot be read: 1.log is a link, so it is left alone" in err


def test_following_ends_with_the_container(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """New output is printed; the pod's snapshot says when the container has ended."""
    pod = machine.pod(status("web", RUNNING))
    log = machine.wrote("web", 1, "one")

    def ends(_: float) -> None:
        with log.open("a") as file:
            file.write("2026-11-21T12:00:01Z stdout F last\n")
        ended = replace(pod, containers={"web": ContainerSnapshot("c1", "CONTAINER_EXITED", 1)})
        snapshot_path(machine.root, pod.uid).write_bytes(ended.to_json())

    monkeypatch.setattr("worker.commands.show.logs.time.sleep", ends)
    assert machine.tempolet("default/web", "-f", "--tail", "0") == (Exit.DONE, "last\n", "")
