"""Does a container get its CSI volume, whichever process dies in between, and is all of it removed with the last pod?"""

import signal
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activities.files import mounts
from proto.pod_snapshot import PodSnapshot
from tests.csi.orders import Order, Setup
from tests.csi.process import DriverProcess
from tests.node.kept_objects import put_object
from tests.node.operating import history
from tests.node.pod_story import log_lines, log_path, story
from tests.node.secrets.searched_files import files_with
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.temporal_server import TemporalServer

STAGE, PUBLISH = "NodeStageVolume", "NodePublishVolume"
UNPUBLISH, UNSTAGE = "NodeUnpublishVolume", "NodeUnstageVolume"
LIFE = (STAGE, PUBLISH, UNPUBLISH, UNSTAGE)
CANARY = "canary-of-the-csi-test"


@pytest.fixture
def driver(node: TempoletNode) -> Iterator[DriverProcess]:
    """Run a driver for this test, with its CSIDriver object."""
    name = f"d{uuid.uuid4().hex[:6]}.test"  # it is part of a socket's path, which is limited to 107 characters
    lifecycles = ["Persistent", "Ephemeral"]
    put_object(node, "csidrivers", name, spec={"attachRequired": False, "volumeLifecycleModes": lifecycles})
    with (
        tempfile.TemporaryDirectory(prefix="csi.", dir="/tmp") as folder,
        DriverProcess(Path(folder), node.root_dir / "plugins_registry", Setup(name)) as process,
    ):
        yield process
        node.remove_all()


def bind(node: TempoletNode, driver: DriverProcess, name: str, **csi: Any) -> None:
    """Write a volume and its claim; keywords go into the volume's csi field."""
    volume = driver.folder.volume(f"handle-{name}")
    volume.mkdir(parents=True)
    (volume / "file").write_text(f"content of {name}\n")
    mode = {"volumeMode": csi.pop("volumeMode", "Filesystem"), "accessModes": ["ReadWriteOnce"]}
    made_of = {"driver": driver.setup.name, "volumeHandle": f"handle-{name}", **csi}
    reference = {"namespace": "default", "name": name}
    put_object(node, "persistentvolumes", name, spec={"csi": made_of, "claimRef": reference, **mode})
    put_object(node, "persistentvolumeclaims", name, spec={"volumeName": name, **mode})


def claiming(pod: str, claim: str, command: str = "cat /data/file; sleep 3600") -> dict[str, Any]:
    """Build a pod that mounts a claim at /data."""
    manifest = pod_manifest(pod, command)
    manifest["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return manifest


def life(driver: DriverProcess) -> list[str]:
    """Return the calls that mount and unmount a volume, in order."""
    return [one["call"] for one in driver.folder.calls(*LIFE)]


def printed(node: TempoletNode, snapshot: PodSnapshot, text: str) -> None:
    """Wait until a container has logged a text."""
    node.until(lambda: text in log_lines(log_path(node, snapshot)), f"{text!r} said by {snapshot.name}")


def left(node: TempoletNode, driver: DriverProcess) -> list[str]:
    """Return what is left of the driver's volumes on the node: folders and mounts."""
    lying = [str(one) for one in (node.root_dir / "plugins/kubernetes.io/csi").glob(f"{driver.setup.name}/*")]
    return lying + [one for one in mounts.mounts_below(node.root_dir) if "csi" in one]


def test_a_claim_brings_its_content_and_goes_with_its_pod(
    node: TempoletNode, driver: DriverProcess, temporal: TemporalServer
) -> None:
    """Visible in the container, written to the volume; unpublished and unstaged in order; its key is nowhere."""
    put_object(node, "secrets", "vault", stringData={"key": CANARY})
    secret = {"nodeStageSecretRef": {"namespace": "default", "name": "vault"}}
    bind(node, driver, "life", **secret)
    node.apply(claiming("life", "life", "cat /data/file; echo written > /data/new; sleep 3600"))
    snapshot = node.until_running("life")
    printed(node, snapshot, "content of life")
    new = driver.folder.volume("handle-life") / "new"
    node.until(lambda: new.exists() and new.read_text(), "what the container wrote")
    [status] = snapshot.status["containerStatuses"]
    assert [one["mountPath"] for one in status["volumeMounts"]] == ["/data"]
    assert any("volume data mounted" in one for one in story(node, snapshot))
    assert driver.folder.calls(STAGE)[0]["secrets"] == {"key": CANARY}
    assert CANARY not in history(node, snapshot)
    lying = [one for folder in (node.directory, temporal.root) for one in files_with(CANARY.encode(), folder)]
    assert [one for one in lying if node.objects not in one.parents] == []
    node.take_away("life")
    assert life(driver) == [STAGE, PUBLISH, UNPUBLISH, UNSTAGE]
    assert new.read_text() == "written\n"
    assert left(node, driver) == []
    assert CANARY not in node.log("worker") + node.log("poller")


def test_two_pods_share_one_volume(node: TempoletNode, driver: DriverProcess) -> None:
    """It is staged once, and unstaged with the second pod."""
    bind(node, driver, "both")
    for name in ("one", "two"):
        node.apply(claiming(name, "both"))
    for name in ("one", "two"):
        printed(node, node.until_running(name), "content of both")
    assert sorted(life(driver)) == [PUBLISH, PUBLISH, STAGE]
    node.take_away("one")
    assert life(driver)[3:] == [UNPUBLISH]
    node.take_away("two")
    assert life(driver)[3:] == [UNPUBLISH, UNPUBLISH, UNSTAGE]
    assert left(node, driver) == []


def test_a_worker_that_is_killed_between_stage_and_publish(
    node: TempoletNode, driver: DriverProcess, tmp_path: Path
) -> None:
    """The next worker continues, and nothing is left behind."""
    bind(node, driver, "killed")
    go = tmp_path / "go"
    driver.folder.order(PUBLISH, Order(until=str(go)))
    node.apply(claiming("killed", "killed"))
    node.until(lambda: driver.folder.count(PUBLISH) == 1, "staged, and publish under way")
    node.stop("worker", signal.SIGKILL)
    go.touch()
    node.start("worker")
    printed(node, node.until_running("killed"), "content of killed")
    node.take_away("killed")
    assert life(driver)[-2:] == [UNPUBLISH, UNSTAGE]
    assert left(node, driver) == []


def test_a_worker_that_is_killed_and_a_pod_that_goes_meanwhile(
    node: TempoletNode, driver: DriverProcess, tmp_path: Path
) -> None:
    """Unfinished work is undone from the records on disk."""
    bind(node, driver, "halfway")
    driver.folder.order(PUBLISH, Order(until=str(tmp_path / "never")))
    node.apply(claiming("halfway", "halfway"))
    node.until(lambda: driver.folder.count(PUBLISH) == 1, "staged, and publish under way")
    node.stop("worker", signal.SIGKILL)
    node.remove("halfway")
    driver.folder.order(PUBLISH, None)
    node.start("worker")
    node.until_gone("halfway")
    assert UNSTAGE in life(driver)
    assert left(node, driver) == []


def test_a_pod_waits_for_a_driver_that_is_not_there(node: TempoletNode, driver: DriverProcess) -> None:
    """With the kubelet's message; it continues by itself when the driver registers."""
    bind(node, driver, "late")
    driver.stop()
    node.apply(claiming("late", "late"))
    node.apply(pod_manifest("beside"))
    words = (
        'MountVolume.MountDevice failed for volume "late" : kubernetes.io/csi: '
        "attacher.MountDevice failed to create newCsiDriverClient: "
        f"driver name {driver.setup.name} not found in the list of registered CSI drivers"
    )
    # the first attempt may precede the worker's notice that the driver is gone, and fails with another message
    node.until_pod("late", lambda one: (one.reason, one.message) == ("FailedMount", words), words)
    node.until_running("beside")
    driver.start()
    printed(node, node.until_running("late"), "content of late")
    node.take_away("late", "beside")
    assert left(node, driver) == []


def test_a_driver_that_dies_between_stage_and_publish(node: TempoletNode, driver: DriverProcess) -> None:
    """When restarted, it registers again and the pod continues."""
    bind(node, driver, "dying")
    driver.folder.order(STAGE, Order(times=1, die=True))
    node.apply(claiming("dying", "dying"))
    driver.died()
    failed = node.until_pod("dying", lambda one: one.reason == "FailedMount")
    assert 'MountVolume.MountDevice failed for volume "dying" : rpc error: code = Unavailable' in failed.message
    driver.start()
    printed(node, node.until_running("dying"), "content of dying")
    node.take_away("dying")
    assert left(node, driver) == []


def test_a_busy_volume_stays_visible_until_it_is_free(node: TempoletNode, driver: DriverProcess) -> None:
    """A process on the node has a file open: the pod stays, with the driver's message, and is removed when it is closed."""
    bind(node, driver, "busy")
    node.apply(claiming("busy", "busy"))
    snapshot = node.until_running("busy")
    target = node.root_dir / "pods" / snapshot.uid / "volumes/kubernetes.io~csi/busy/mount"
    with (target / "file").open():
        node.remove("busy")
        said = "rpc error: code = Internal desc = unmount failed: Device or resource busy"
        node.until(lambda: any(said in line for line in story(node, snapshot)), "its driver's words in the story")
        assert UNSTAGE not in life(driver)
    node.until_gone("busy")
    assert left(node, driver) == []


def test_a_driver_that_hangs_holds_up_its_own_pod_only(
    node: TempoletNode, driver: DriverProcess, tmp_path: Path
) -> None:
    """Other pods start meanwhile, and a deleted pod does not wait for the driver."""
    bind(node, driver, "slow")
    driver.folder.order(STAGE, Order(until=str(tmp_path / "never")))
    node.apply(claiming("slow", "slow"))
    node.until(lambda: driver.folder.count(STAGE) == 1, "stage under way")
    node.apply(pod_manifest("beside"))
    node.until_running("beside")
    node.take_away("slow", "beside")
    assert life(driver) == [STAGE, UNPUBLISH, UNSTAGE]
    assert left(node, driver) == []


def test_a_volume_of_the_pods_own(node: TempoletNode, driver: DriverProcess) -> None:
    """Inline: published to its pod only, read-only if requested."""
    manifest = claiming("own", "none", "touch /data/x 2>/data.err; cat /data.err; sleep 3600")
    manifest["spec"]["volumes"] = [{"name": "data", "csi": {"driver": driver.setup.name, "readOnly": True}}]
    node.apply(manifest)
    snapshot = node.until_running("own")
    printed(node, snapshot, "touch: /data/x: Read-only file system")
    node.take_away("own")
    assert life(driver) == [PUBLISH, UNPUBLISH]
    assert left(node, driver) == []


def test_a_device(node: TempoletNode, driver: DriverProcess) -> None:
    """A block volume is a device in the container, with the size of its backing file."""
    bind(node, driver, "disk", volumeMode="Block")
    manifest = pod_manifest("disk", "[ -b /dev/disk ] && wc -c < /dev/disk; sleep 3600")
    manifest["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}]
    manifest["spec"]["containers"][0]["volumeDevices"] = [{"name": "data", "devicePath": "/dev/disk"}]
    node.apply(manifest)
    printed(node, node.until_running("disk"), str(1 << 20))
    node.take_away("disk")
    assert life(driver) == [STAGE, PUBLISH, UNPUBLISH, UNSTAGE]
    assert left(node, driver) == []


def test_a_pod_that_waits_for_its_claim_goes_on_at_once(node: TempoletNode, driver: DriverProcess) -> None:
    """The claim is written while the pod waits: it does not wait for the next retry."""
    node.apply(claiming("early", "early"))
    waiting = node.until_pod("early", lambda one: one.reason == "FailedMount")
    assert (
        'error processing PVC default/early: failed to fetch PVC: persistentvolumeclaim "early" not found'
        in waiting.message
    )
    put_object(node, "persistentvolumeclaims", "early", spec={"accessModes": ["ReadWriteOnce"]})
    node.until_pod("early", lambda one: "PVC is not bound" in one.message)
    bind(node, driver, "early")
    printed(node, node.until_running("early"), "content of early")
    told = story(node, node.until_running("early"))
    assert any("FailedMount: " in line for line in told)
    assert "persistentvolumeclaim early changed" in told
    node.take_away("early")
    assert left(node, driver) == []
