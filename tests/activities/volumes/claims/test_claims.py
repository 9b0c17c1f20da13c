"""Which claims can be mounted, and what is their volume (desired_state_of_world_populator_test.go)?"""

from typing import Any

import pytest

from activities.volumes.claims.claims import ClaimUnusable, bound_volume, check_use, reachable, volume_name
from activities.volumes.plugin.persistent_type import PersistentVolume

REF = {"namespace": "default", "name": "data", "uid": "claim-uid"}


def claim(metadata: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a bound claim."""
    written = {
        "metadata": {"namespace": "default", "name": "data", "uid": "claim-uid", **(metadata or {})},
        "spec": {"volumeName": "pv1", "accessModes": ["ReadWriteOnce"], **spec},
    }
    return written | ({"status": status} if status else {})


def volume(**spec: Any) -> dict[str, Any]:
    """Return a volume that is bound to it."""
    return {"spec": {"hostPath": {"path": "/mnt"}, "accessModes": ["ReadWriteOnce"], "claimRef": REF, **spec}}


DELETED = {"deletionTimestamp": "2026-11-21T21:00:00Z"}


@pytest.mark.parametrize(
    ("of", "name_or_fault"),
    [
        pytest.param(claim(status={"phase": "Bound"}), "pv1", id="bound"),
        pytest.param(claim(), "pv1", id="a-claim-in-a-file-that-names-its-volume"),
        pytest.param(claim(volumeName=""), "PVC is not bound", id="a-claim-in-a-file-that-names-none"),
        pytest.param(claim(status={"phase": "Pending"}), "PVC is not bound", id="pending"),
        pytest.param(claim(status={"phase": "Lost"}), "PVC is not bound", id="lost"),
        pytest.param(
            claim(status={"phase": "Bound"}, volumeName=""), "PVC has empty pvc.Spec.VolumeName", id="bound-to-nothing"
        ),
        pytest.param(claim(DELETED), "PVC is being deleted", id="being-deleted"),
        pytest.param(
            claim({**DELETED, "finalizers": ["kubernetes.io/pvc-protection"]}), "pv1", id="deleted-once-nobody-uses-it"
        ),
        pytest.param({"metadata": {}}, "PVC is not bound", id="no-spec"),
    ],
)
def test_the_volume_of_a_claim(of: dict[str, Any], name_or_fault: str) -> None:
    """The kubelet's results and messages; a claim from a file has no status, so its volumeName counts."""
    try:
        found = volume_name(of)
    except ClaimUnusable as unusable:
        found = str(unusable)
    assert found == name_or_fault


@pytest.mark.parametrize(
    ("volume_of", "claim_of", "fault"),
    [
        pytest.param(
            volume(claimRef=None),
            claim(),
            "found PV object pv1 but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim",
            id="not-bound",
        ),
        pytest.param(
            volume(claimRef={**REF, "uid": "another"}),
            claim(),
            "found PV object pv1 but its pv.Spec.ClaimRef.UID another does not point to claim.UID claim-uid",
            id="bound-to-an-older-claim-of-that-name",
        ),
        pytest.param(
            volume(claimRef={**REF, "name": "other"}),
            claim(),
            "found PV object pv1 but its pv.Spec.ClaimRef default/other does not point to claim default/data",
            id="bound-to-another-claim",
        ),
        pytest.param(
            volume(volumeMode="Block"), claim(), "PV pv1 does not fit: incompatible volumeMode", id="a-device-for-files"
        ),
        pytest.param(
            volume(),
            claim(accessModes=["ReadWriteMany"]),
            "PV pv1 does not fit: incompatible accessMode",
            id="an-access-mode-it-lacks",
        ),
        pytest.param(
            volume(hostPath=None),
            claim(),
            "PV pv1 must be made of exactly one volume type, and names none",
            id="made-of-nothing",
        ),
        pytest.param(
            volume(nfs={"server": "s", "path": "/"}),
            claim(),
            "PV pv1 must be made of exactly one volume type, and names hostPath, nfs",
            id="made-of-two-things",
        ),
        pytest.param(
            volume(accessModes="ReadWriteOnce"),
            claim(),
            "accessModes of PV pv1 or its claim must be a list of strings",
            id="a-field-of-the-wrong-kind",
        ),
        pytest.param({}, claim(), None, id="an-empty-object"),
    ],
)
def test_a_volume_that_is_not_the_claims(
    volume_of: dict[str, Any], claim_of: dict[str, Any], fault: str | None
) -> None:
    """Each with its reason."""
    with pytest.raises(ClaimUnusable) as unusable:
        bound_volume("pv1", volume_of, claim_of, read_only=False)
    assert fault is None or str(unusable.value) == fault


@pytest.mark.parametrize(
    ("said", "group"),
    [
        pytest.param(None, None, id="none"),
        pytest.param("2345", 2345, id="a-number"),
        pytest.param("staff", None, id="a-name-says-nothing"),
        pytest.param("-1", None, id="a-negative-one-neither"),
    ],
)
def test_the_group_of_a_volume(said: str | None, group: int | None) -> None:
    """From the annotation that provisioners write."""
    of = volume() | {"metadata": {"annotations": {"pv.beta.kubernetes.io/gid": said} if said else {}}}
    assert bound_volume("pv1", of, claim(), read_only=False).group_id == group


def test_a_volume_and_its_claim_in_files_need_no_uid() -> None:
    """Nobody has set one."""
    reference = {"namespace": "default", "name": "data"}
    of = claim(accessModes=["ReadWriteOnce"])
    del of["metadata"]["uid"]
    found = bound_volume("pv1", volume(claimRef=reference, mountOptions=["noatime"]), of, read_only=True)
    assert found == PersistentVolume(
        name="pv1",
        type="hostPath",
        source={"path": "/mnt"},
        access_modes=("ReadWriteOnce",),
        mount_options=("noatime",),
        read_only=True,
    )


@pytest.mark.parametrize(
    ("block", "field", "fault"),
    [
        pytest.param(False, "volumeMounts", "", id="files-mounted"),
        pytest.param(True, "volumeDevices", "", id="a-device-taken-for-one"),
        pytest.param(
            True,
            "volumeMounts",
            "volume data has volumeMode Block, but is specified in volumeMounts",
            id="a-device-mounted",
        ),
        pytest.param(
            False,
            "volumeDevices",
            "volume data has volumeMode Filesystem, but is specified in volumeDevices",
            id="files-taken-for-a-device",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
def test_a_volume_is_used_for_what_it_is(kind: str, block: bool, field: str, fault: str) -> None:
    """In containers of every kind."""
    spec = {kind: [{"volumeMounts": [{"name": "other"}]}, {field: [{"name": "data"}]}]}
    try:
        check_use("data", PersistentVolume(name="pv1", type="csi", source={}, block=block), spec)
        found = ""
    except ClaimUnusable as unusable:
        found = str(unusable)
    assert found == fault


LABELS = {"kubernetes.io/hostname": "n1", "disks": "4"}


def asks(key: str, operator: str, *values: str) -> dict[str, Any]:
    """Return one expression."""
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("terms", "answer"),
    [
        pytest.param([{"matchExpressions": [asks("kubernetes.io/hostname", "In", "n1", "n2")]}], True, id="in"),
        pytest.param([{"matchExpressions": [asks("kubernetes.io/hostname", "In", "n2")]}], False, id="not-in-the-list"),
        pytest.param([{"matchExpressions": [asks("zone", "NotIn", "a")]}], True, id="a-label-it-lacks-is-not-in"),
        pytest.param([{"matchExpressions": [asks("disks", "Exists")]}], True, id="exists"),
        pytest.param([{"matchExpressions": [asks("zone", "Exists")]}], False, id="exists-not"),
        pytest.param([{"matchExpressions": [asks("zone", "DoesNotExist")]}], True, id="does-not-exist"),
        pytest.param([{"matchExpressions": [asks("disks", "Gt", "3")]}], True, id="greater"),
        pytest.param([{"matchExpressions": [asks("disks", "Lt", "3")]}], False, id="not-less"),
        pytest.param([{"matchExpressions": [asks("kubernetes.io/hostname", "Gt", "3")]}], False, id="no-number"),
        pytest.param([{"matchFields": [asks("metadata.name", "In", "n1")]}], True, id="by-name"),
        pytest.param(
            [{"matchExpressions": [asks("disks", "Exists"), asks("zone", "Exists")]}], False, id="all-of-a-term-hold"
        ),
        pytest.param(
            [{"matchExpressions": [asks("zone", "Exists")]}, {"matchExpressions": [asks("disks", "Exists")]}],
            True,
            id="one-term-is-enough",
        ),
        pytest.param([{}], False, id="a-term-that-asks-nothing-matches-nothing"),
        pytest.param([{"matchExpressions": [asks("disks", "Like", "4")]}], False, id="an-operator-nobody-knows"),
    ],
)
def test_a_volume_that_is_elsewhere(terms: list[dict[str, Any]], answer: bool) -> None:
    """A volume's node affinity against this node (nodeaffinity_test.go)."""
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    assert reachable(spec, LABELS, "n1") is answer


def test_a_volume_without_affinity_is_everywhere() -> None:
    """As most volumes."""
    assert reachable({}, LABELS, "n1")
