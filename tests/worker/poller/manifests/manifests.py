"""A one-line manifest format for the poller's tests: `pod NAME [UID]`; anything else is invalid."""

import hashlib
from datetime import datetime
from pathlib import Path

from worker.poller.manifests.static_pod import Refused, StaticPod


def read(path: Path, data: bytes, now: datetime) -> StaticPod | Refused:
    """Read the one line; the UID hashes path and line where none is given, as for real manifests."""
    match data.decode().split():
        case ["pod", name, *rest]:
            uid = rest[0] if rest else hashlib.md5(f"{path}{data!r}".encode()).hexdigest()
            return static_pod(path, name, uid, {"kubernetes.io/config.seen": now.isoformat()})
        case ["crash"]:
            raise RuntimeError("planted")
        case _:
            return Refused(path, "InvalidPod", (f"{data[:20]!r} is no pod",))


def static_pod(path: Path, name: str, uid: str, annotations: dict[str, str] | None = None) -> StaticPod:
    """Build a pod of namespace default; a UID that is called own is the manifest's."""
    metadata = {"name": name, "namespace": "default", "uid": uid, "annotations": annotations or {}}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}
    return StaticPod(path, pod, uid, "default", name, own_uid=uid.startswith("own"))
