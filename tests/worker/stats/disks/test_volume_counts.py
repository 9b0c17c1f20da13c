"""Do the volumes that pods want and have match, by the kubelet's names of their plugins?"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from activities.files.pod_paths import CLAIMS
from worker.stats.disks.volume_counts import count_volumes
from worker.stats.prometheus.volume_families import total_family
from worker.telemetry.exposition import render

HOME = "pods/u1"
CLAIM = {"persistentVolumeClaim": {"claimName": "mine"}}
RECORD = f"{HOME}/{CLAIMS}/data"
DATA = json.dumps({"driverName": "d.test", "volumeHandle": "h"})
FILES = {f"{HOME}/volumes/kubernetes.io~csi/pv1/vol_data.json": DATA}
DRIVER, CSI = "kubernetes.io/csi:d.test", "kubernetes.io/csi"
DISK = {"azureDisk": {"diskName": "d", "diskURI": "u"}}


def recorded(kind: str, *, block: bool = False) -> Mapping[str, str]:
    """Record which volume the pod's volume means."""
    return {RECORD: json.dumps({"type": kind, "name": "pv1", "block": block})}


def put(root: Path, files: Mapping[str, str]) -> None:
    """Write files; a name that ends with a slash is a folder, and a content that begins with `->` a link."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        elif content.startswith("->"):
            path.symlink_to(content.removeprefix("->"))
        else:
            path.write_text(content)


DEVICE = {
    f"{HOME}/volumeDevices/kubernetes.io~csi/pv1": "->/nowhere",
    "plugins/kubernetes.io/csi/volumeDevices/pv1/data/vol_data.json": DATA,
}


@pytest.mark.parametrize(
    ("volume", "files", "wanted", "actual"),
    [
        pytest.param(
            {"emptyDir": {}},
            {f"{HOME}/volumes/kubernetes.io~empty-dir/data/": ""},
            *["kubernetes.io/empty-dir"] * 2,
            id="files-of-the-node",
        ),
        pytest.param({"emptyDir": {}}, {}, "kubernetes.io/empty-dir", "", id="not-yet-made"),
        pytest.param(
            {"hostPath": {"path": "/"}}, {}, *["kubernetes.io/host-path"] * 2, id="nothing-in-the-pods-folder"
        ),
        pytest.param({"csi": {"driver": "d.test"}}, FILES, DRIVER, DRIVER, id="in-the-pods-spec"),
        pytest.param(CLAIM, {**recorded("csi"), **FILES}, DRIVER, DRIVER, id="a-claim"),
        pytest.param({"ephemeral": {}}, {**recorded("csi"), **FILES}, DRIVER, DRIVER, id="an-ephemeral-claim"),
        pytest.param(DISK, {**recorded("csi"), **FILES}, DRIVER, DRIVER, id="a-cloud"),
        pytest.param(CLAIM, {**recorded("csi", block=True), **DEVICE}, DRIVER, DRIVER, id="a-device"),
        pytest.param(CLAIM, recorded("csi"), CSI, "", id="a-claim-that-waits-to-be-attached"),
        pytest.param(CLAIM, {}, "", "", id="a-claim-that-is-not-found"),
        pytest.param(CLAIM, {RECORD: "["}, "", "", id="a-damaged-record"),
        pytest.param(
            CLAIM,
            {**recorded("nfs"), f"{HOME}/volumes/kubernetes.io~nfs/pv1/": ""},
            *["kubernetes.io/nfs"] * 2,
            id="a-claim-of-another-type",
        ),
        pytest.param(
            CLAIM, recorded("local", block=True), *["kubernetes.io/local-volume"] * 2, id="a-device-of-another-type"
        ),
    ],
)
def test_volumes_are_counted_by_plugin(
    tmp_path: Path, volume: dict[str, Any], files: Mapping[str, str], wanted: str, actual: str
) -> None:
    """CSI's with the driver, both what pods want and what they have."""
    put(tmp_path, files)
    pod = {"metadata": {"uid": "u1"}, "spec": {"volumes": [{"name": "data", **volume}]}}
    told = render([total_family(count_volumes(tmp_path, [pod]))]).decode().splitlines()
    states = {"desired_state_of_world": wanted, "actual_state_of_world": actual}
    assert [one for one in told if not one.startswith("#")] == [
        f'volume_manager_total_volumes{{plugin_name="{plugin}",state="{state}"}} 1'
        for state, plugin in states.items()
        if plugin
    ]
