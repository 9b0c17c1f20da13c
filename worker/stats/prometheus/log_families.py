"""The size of containers' logs in /metrics (pkg/kubelet/metrics/collectors/log_metrics.go)."""

from collections.abc import Iterable
from pathlib import Path

from worker.stats.disks.log_use import used_below
from worker.stats.disks.pod_files import PodFile
from worker.telemetry.exposition import Family, labels


def log_family(pod_logs_dir: Path, pods: Iterable[PodFile]) -> Family:
    """Return the bytes of the logs of these pods' containers. Blocks."""
    text = "[ALPHA] Bytes used by the container's logs on the filesystem."
    family = Family("kubelet_container_log_filesystem_used_bytes", text, "gauge")
    for pod in pods:
        folder = pod_logs_dir / f"{pod.namespace}_{pod.name}_{pod.uid}"
        for name in sorted(one.name for one in folder.iterdir() if one.is_dir()) if folder.is_dir() else ():
            used = used_below(folder / name).used_bytes
            family.add(used, labels({"uid": pod.uid, "namespace": pod.namespace, "pod": pod.name, "container": name}))
    return family
