"""Reads a driver's CSIDriver object: how its volumes are to be mounted (storage.k8s.io/v1).

Without an API server the object comes from the objects folder, so the API's defaults are applied here. A standalone
node has no attacher and no token issuer: a driver that needs one is refused with a message that says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, ObjectSource
from activities.volumes.csi.records.volume import SINGLE_WRITERS, CsiVolume, Lifecycle
from activities.volumes.plugin.volume_type import VolumeFailed


class FsGroupPolicy(StrEnum):
    """Whether a pod's fsGroup is applied to a volume's files."""

    NONE = "None"
    FILE = "File"
    SINGLE_WRITER_WITH_FS_TYPE = "ReadWriteOnceWithFSType"


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A token of the pod's service account that a driver requests."""

    audience: str = ""
    """Empty: the API server's default."""
    expiration_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverRules:
    """The object's spec with the API's defaults; for a driver without an object, the kubelet's defaults."""

    known: bool = False
    attach_required: bool = True
    pod_info: bool = False
    lifecycles: tuple[str, ...] = (Lifecycle.PERSISTENT,)
    fs_group_policy: FsGroupPolicy = FsGroupPolicy.SINGLE_WRITER_WITH_FS_TYPE
    token_requests: tuple[TokenRequest, ...] = ()
    tokens_in_secrets: bool = False
    """Tokens are passed as secrets instead of volume attributes."""
    republish: bool = False
    mounts_labels: bool = False
    """It takes a SELinux label as a mount option (`seLinuxMount`)."""
    counts_places: bool = False
    """It says again and again how many volumes the node can have (`nodeAllocatableUpdatePeriodSeconds`)."""

    def needs_attaching(self, volume: CsiVolume) -> bool:
        """Report whether the volume must be attached to this node first; an ephemeral one never is."""
        return self.attach_required and volume.lifecycle is Lifecycle.PERSISTENT

    def needs_fs_group(self, volume: CsiVolume) -> bool:
        """Report whether the kubelet applies a pod's fsGroup to a volume of this driver (csi_mounter.go supportsFSGroup)."""
        if volume.read_only or volume.block or self.fs_group_policy is FsGroupPolicy.NONE:
            return False
        if self.fs_group_policy is FsGroupPolicy.FILE:
            return True
        one_writer = any(mode in SINGLE_WRITERS for mode in volume.access_modes)
        return bool(volume.fs_type) and (volume.lifecycle is Lifecycle.EPHEMERAL or one_writer)


async def driver_rules(objects: ObjectSource, driver: str) -> DriverRules:
    """Read a driver's object; raises VolumeFailed if it cannot be read."""
    try:
        stored = await objects.get(ObjectKind.CSI_DRIVERS, "", driver)
    except ObjectMissing:
        return DriverRules()
    except ObjectRefused as refused:
        raise VolumeFailed(str(refused)) from refused
    return read_rules(driver, stored.json.get("spec") or {})


def read_rules(driver: str, spec: Mapping[str, Any]) -> DriverRules:
    """Read an object's spec; raises VolumeFailed for an unknown policy."""
    policy = spec.get("fsGroupPolicy") or FsGroupPolicy.SINGLE_WRITER_WITH_FS_TYPE
    if policy not in tuple(FsGroupPolicy):
        known = ", ".join(FsGroupPolicy)
        raise VolumeFailed(f"CSIDriver {driver}: spec.fsGroupPolicy {str(policy)[:64]!r} is not one of {known}")
    return DriverRules(
        known=True,
        attach_required=spec.get("attachRequired") is not False,
        pod_info=spec.get("podInfoOnMount") is True,
        lifecycles=tuple(spec.get("volumeLifecycleModes") or (Lifecycle.PERSISTENT,)),
        fs_group_policy=FsGroupPolicy(policy),
        token_requests=tuple(
            TokenRequest(one.get("audience") or "", one.get("expirationSeconds"))
            for one in spec.get("tokenRequests") or ()
        ),
        tokens_in_secrets=spec.get("serviceAccountTokenInSecrets") is True,
        republish=spec.get("requiresRepublish") is True,
        mounts_labels=spec.get("seLinuxMount") is True,
        counts_places=allocatable_period(spec) is not None,
    )


def allocatable_period(spec: Mapping[str, Any]) -> int | None:
    """Return after how many seconds a driver wants to be asked how many volumes the node can have; None: never again."""
    seconds = spec.get("nodeAllocatableUpdatePeriodSeconds")
    return seconds if isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0 else None


def check_rules(rules: DriverRules, volume: CsiVolume, *, standalone: bool = True) -> None:
    """Refuse what the driver does not support, and what a standalone node cannot do for it; raises VolumeFailed."""
    if volume.lifecycle not in rules.lifecycles or (not rules.known and volume.lifecycle is Lifecycle.EPHEMERAL):
        listed = " ".join(f'"{one}"' for one in rules.lifecycles)
        only = f"only supports [{listed}]" if rules.known else "no CSIDriver object"
        raise VolumeFailed(
            f"kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: volume mode "
            f'"{volume.lifecycle}" not supported by driver {volume.driver} ({only})'
        )
    if not standalone:
        return
    if rules.needs_attaching(volume):
        reason = "its CSIDriver object says so" if rules.known else "no CSIDriver object says otherwise"
        raise VolumeFailed(
            f"volumes of driver {volume.driver} need to be attached ({reason}), and a node without a cluster cannot "
            f"attach them: where the driver works without, put a CSIDriver object {volume.driver} with "
            f"spec.attachRequired: false into the objects folder"
        )
    if rules.token_requests:
        raise VolumeFailed(
            f"driver {volume.driver} asks for service account tokens (CSIDriver spec.tokenRequests), and a node without a "
            f"cluster cannot issue them"
        )


def pod_attributes(pod: Mapping[str, Any], lifecycle: Lifecycle) -> dict[str, str]:
    """Return the attributes that describe the pod, for drivers that ask for them (csi_util.go getPodInfoAttrs)."""
    metadata, spec = pod["metadata"], pod["spec"]
    return {
        "csi.storage.k8s.io/pod.name": metadata["name"],
        "csi.storage.k8s.io/pod.namespace": metadata["namespace"],
        "csi.storage.k8s.io/pod.uid": metadata["uid"],
        "csi.storage.k8s.io/serviceAccount.name": spec.get("serviceAccountName") or "",
        "csi.storage.k8s.io/ephemeral": "true" if lifecycle is Lifecycle.EPHEMERAL else "false",
    }
