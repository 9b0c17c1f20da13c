"""Are volumes and mounts validated as by the API (validation_test.go TestValidateVolumes, TestValidateVolumeMounts)?"""

from typing import Any

import pytest

from tests.workflows.decide.manifest.judging import validated
from tests.workflows.decide.pods import LABEL_RULE, SUBDOMAIN_RULE, container, pod

DATA = {"name": "data", "emptyDir": {}}
ALONE = "may only be specified when mountPropagation is None or not specified"


def host(**fields: Any) -> dict[str, Any]:
    """Build a hostPath volume."""
    return {"name": "data", "hostPath": {"path": "/mnt", **fields}}


def claim(**fields: Any) -> dict[str, Any]:
    """Build a volume with a claim."""
    return {"name": "data", "persistentVolumeClaim": fields}


def inline(**fields: Any) -> dict[str, Any]:
    """Build an inline CSI volume."""
    return {"name": "data", "csi": fields}


@pytest.mark.parametrize(
    ("volumes", "faults"),
    [
        pytest.param([DATA], [], id="emptyDir"),
        pytest.param([{"name": "data"}], [], id="no-type-is-an-emptyDir"),
        pytest.param([host()], [], id="hostPath"),
        pytest.param([host(type="Socket")], [], id="hostPath-of-a-type"),
        pytest.param(
            [host(type="Pipe")],
            [
                (
                    'spec.volumes[0].hostPath.type: Unsupported value: "Pipe": supported values: "", "BlockDevice",'
                    ' "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"'
                )
            ],
            id="hostPath-of-an-unknown-type",
        ),
        pytest.param([host(path="")], ["spec.volumes[0].hostPath.path: Required value"], id="hostPath-of-nothing"),
        pytest.param(
            [host(path="/mnt/../etc")],
            ["spec.volumes[0].hostPath.path: Invalid value: \"/mnt/../etc\": must not contain '..'"],
            id="hostPath-with-backsteps",
        ),
        pytest.param([host(path="/mnt/..data")], [], id="two-dots-in-a-name-are-none"),
        pytest.param(
            [DATA | host()],
            ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
            id="two-types",
        ),
        pytest.param([claim(claimName="c")], [], id="a-claim"),
        pytest.param([claim(claimName="c", readOnly=True)], [], id="a-claim-read-only"),
        pytest.param(
            [claim()], ["spec.volumes[0].persistentVolumeClaim.claimName: Required value"], id="a-claim-of-no-name"
        ),
        pytest.param([inline(driver="Disks.example.com", volumeAttributes={"a": "b"})], [], id="a-drivers-own"),
        pytest.param([inline()], ["spec.volumes[0].csi.driver: Required value"], id="of-no-driver"),
        pytest.param(
            [inline(driver="a/b")],
            [f'spec.volumes[0].csi.driver: Invalid value: "a/b": {SUBDOMAIN_RULE}'],
            id="of-a-driver-with-a-bad-name",
        ),
        pytest.param(
            [inline(driver="d" * 64)],
            ["spec.volumes[0].csi.driver: Too long: may not be more than 63 bytes"],
            id="of-a-driver-with-a-long-name",
        ),
        pytest.param(
            [inline(driver="d", nodePublishSecretRef={})],
            ["spec.volumes[0].csi.nodePublishSecretRef.name: Required value"],
            id="with-a-secret-of-no-name",
        ),
        pytest.param(
            [inline(driver="d", nodePublishSecretRef={"name": "B"})],
            [f'spec.volumes[0].csi.name: Invalid value: "B": {SUBDOMAIN_RULE}'],
            id="with-a-secret-of-a-bad-name",
        ),
        pytest.param(
            [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}],
            [
                (
                    "spec.volumes[0].ephemeral: not supported: a standalone node cannot provision its claim; use a "
                    "persistentVolumeClaim that you bind yourself"
                )
            ],
            id="a-claim-made-for-the-pod",
        ),
        pytest.param([{"emptyDir": {}}], ["spec.volumes[0].name: Required value"], id="no-name"),
        pytest.param(
            [{"name": "A", "emptyDir": {}}],
            [f'spec.volumes[0].name: Invalid value: "A": {LABEL_RULE}'],
            id="in-capitals",
        ),
        pytest.param([DATA, DATA], ['spec.volumes[1].name: Duplicate value: "data"'], id="the-same-name-twice"),
        pytest.param([{"name": "data", "nfs": {"server": "s", "path": "/p", "readOnly": True}}], [], id="nfs"),
        pytest.param(
            [{"name": "data", "nfs": {"path": "/p"}}],
            ["spec.volumes[0].nfs.server: Required value"],
            id="nfs-no-server",
        ),
        pytest.param(
            [{"name": "data", "nfs": {"server": "s"}}],
            [
                "spec.volumes[0].nfs.path: Required value",
                'spec.volumes[0].nfs.path: Invalid value: "": must be an absolute path',
            ],
            id="nfs-no-path",
        ),
        pytest.param(
            [{"name": "data", "nfs": {"server": "s", "path": "p"}}],
            ['spec.volumes[0].nfs.path: Invalid value: "p": must be an absolute path'],
            id="nfs-relative",
        ),
        pytest.param([{"name": "data", "image": {"reference": "busybox"}}], [], id="image"),
        pytest.param(
            [{"name": "data", "image": {"reference": "busybox", "pullPolicy": "Never"}}], [], id="image-never-pulled"
        ),
        pytest.param(
            [{"name": "data", "image": {}}], ["spec.volumes[0].image.reference: Required value"], id="image-of-nothing"
        ),
        pytest.param(
            [{"name": "data", "image": {"reference": "busybox", "pullPolicy": "Sometimes"}}],
            [
                (
                    'spec.volumes[0].image.pullPolicy: Unsupported value: "Sometimes":'
                    ' supported values: "Always", "IfNotPresent", "Never"'
                )
            ],
            id="image-of-an-unknown-policy",
        ),
        pytest.param(
            [{"name": "data", "gitRepo": {"repository": "x"}}],
            [
                (
                    "spec.volumes[0].gitRepo: not supported: Kubernetes has switched it off;"
                    " let an init container clone into an emptyDir instead"
                )
            ],
            id="gitRepo",
        ),
        pytest.param(
            [{"name": "data", "rbd": {"image": "x"}}], ["spec.volumes[0].rbd: not supported yet"], id="a-type-not-run"
        ),
        pytest.param([{"name": "data", "floppy": {}}], ["spec.volumes[0].floppy: unknown field"], id="an-unknown-type"),
    ],
)
def test_volumes(volumes: list[dict[str, Any]], faults: list[str]) -> None:
    """One type each, with its own rules, and a unique name."""
    assert list(validated(pod(volumes=volumes))) == faults


@pytest.mark.parametrize(
    ("mounts", "faults"),
    [
        pytest.param([{"name": "data", "mountPath": "/a"}], [], id="valid"),
        pytest.param([{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}], [], id="twice"),
        pytest.param([{"name": "data", "mountPath": "a:b"}], [], id="relative-and-with-a-colon"),
        pytest.param([{"mountPath": "/a"}], ["[0].name: Required value", '[0].name: Not found: ""'], id="of-no-volume"),
        pytest.param([{"name": "x", "mountPath": "/a"}], ['[0].name: Not found: "x"'], id="of-an-unknown-volume"),
        pytest.param([{"name": "data"}], ["[0].mountPath: Required value"], id="nowhere"),
        pytest.param(
            [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/a"}],
            ['[1].mountPath: Invalid value: "/a": must be unique'],
            id="at-one-place-twice",
        ),
        pytest.param(
            [{"name": "data", "mountPath": "/a", "mountPropagation": "Sideways"}],
            [
                (
                    '.mountPropagation: Unsupported value: "Sideways": supported values: "Bidirectional", "HostToContainer",'
                    ' "None"'
                )
            ],
            id="unknown-propagation",
        ),
        pytest.param(
            [{"name": "data", "mountPath": "/a", "mountPropagation": "Bidirectional"}],
            [
                ".mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers"
            ],
            id="both-ways-unprivileged",
        ),
        pytest.param([{"name": "data", "mountPath": "/a", "mountPropagation": "HostToContainer"}], [], id="inward"),
        pytest.param([{"name": "data", "mountPath": "/a", "subPath": "baz"}], [], id="subPath"),
        pytest.param(
            [{"name": "data", "mountPath": "/a", "subPath": "b..az/..c"}], [], id="subPath-with-dots-in-names"
        ),
        pytest.param([{"name": "data", "mountPath": "/a", "subPathExpr": "$(POD)/x"}], [], id="subPathExpr"),
        pytest.param(
            [{"name": "data", "mountPath": "/a", "subPath": "baz/../x"}],
            [".subPath: Invalid value: \"baz/../x\": must not contain '..'"],
            id="subPath-upward",
        ),
        pytest.param(
            [{"name": "data", "mountPath": "/a", "subPath": "/baz"}],
            ['.subPath: Invalid value: "/baz": must be a relative path'],
            id="subPath-absolute",
        ),
        pytest.param(
            [{"name": "data", "mountPath": "/a", "subPathExpr": "../x"}],
            [".subPathExpr: Invalid value: \"../x\": must not contain '..'"],
            id="subPathExpr-upward",
        ),
        pytest.param(
            [{"name": "data", "mountPath": "/a", "subPath": "a", "subPathExpr": "/b"}],
            [
                '[0].subPathExpr: Invalid value: "/b": subPathExpr and subPath are mutually exclusive',
                '.subPathExpr: Invalid value: "/b": must be a relative path',
            ],
            id="subPath-and-subPathExpr",
        ),
        pytest.param(
            [{"name": "data", "mountPath": "/a", "readOnly": True, "recursiveReadOnly": "Enabled"}], [], id="recursive"
        ),
        pytest.param(
            [{"name": "data", "mountPath": "/a", "recursiveReadOnly": "IfPossible"}],
            [".recursiveReadOnly: Forbidden: may only be specified when readOnly is true"],
            id="recursive-and-writable",
        ),
        pytest.param(
            [
                {
                    "name": "data",
                    "mountPath": "/a",
                    "readOnly": True,
                    "recursiveReadOnly": "Enabled",
                    "mountPropagation": "HostToContainer",
                }
            ],
            [f".recursiveReadOnly: Forbidden: {ALONE}"],
            id="recursive-and-propagated",
        ),
        pytest.param(
            [{"name": "data", "mountPath": "/a", "recursiveReadOnly": "Sometimes"}],
            [
                '.recursiveReadOnly: Unsupported value: "Sometimes": supported values: "Disabled", "Enabled", "IfPossible"'
            ],
            id="unknown-recursion",
        ),
    ],
)
def test_mounts(mounts: list[dict[str, Any]], faults: list[str]) -> None:
    """Each of an existing volume, at a unique path."""
    manifest = container(volumeMounts=mounts)
    manifest["spec"]["volumes"] = [DATA]
    assert list(validated(manifest)) == [f"spec.containers[0].volumeMounts{fault}" for fault in faults]


def test_mounts_of_init_containers() -> None:
    """They are validated too, under their own path."""
    init = {"name": "first", "image": "busybox", "volumeMounts": [{"name": "x", "mountPath": "/a"}]}
    found = validated(pod(initContainers=[init]))
    assert found == ('spec.initContainers[0].volumeMounts[0].name: Not found: "x"',)
