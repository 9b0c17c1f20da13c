"""Merges the /metrics texts of the node's three processes into one. Pure.

Dashboards expect one kubelet. What every process counts for itself (memory, CRI calls, requests to the API server) gets a label
`process`: a sum would drop whenever one of them restarts, which looks like a counter reset to `rate`. Every other family has
one owner, whose series are left as they are. The same family from another process is dropped: a process that does not own a
series must not report it as 0.
"""

from collections.abc import Mapping
from typing import Final

from worker.telemetry.exposition import Family, parse_families, with_labels

NODE: Final = "node"
POLLER: Final = "poller"
WORKER: Final = "worker"
PER_PROCESS: Final = (
    "process_",
    "python_",
    "kubelet_runtime_operations_",
    "rest_client_",
    "temporal_",
    "tempolet_sdk_",
    "tempolet_loop_",
)
"""Prefixes of families that each process counts for itself."""
OWNED: Final[Mapping[str, tuple[str, ...]]] = {
    NODE: (
        "kubelet_node_name",
        "kubelet_node_startup_",
        "kubelet_certificate_manager_",
        "kubelet_server_expiration_",
        "kubelet_http_",
        "kubelet_volume_stats_",
        "kubelet_volume_metric_",
        "kubelet_pod_resources_",
        "kubelet_cgroup_version",
        "kubelet_container_log_",
        "kubernetes_",
        "volume_manager_",
        "tempolet_process_",
    ),
    POLLER: (
        "kubelet_pleg_",
        "kubelet_evented_pleg_",
        "kubelet_mirror_pods",
        "kubelet_orphaned_runtime_pods",
        "kubelet_pod_watch_",
        "kubelet_preemptions",
        "kubelet_container_requested_resizes",
        "kubelet_pod_infeasible_resizes",
        "kubelet_pod_deferred_accepted_resizes",
        "tempolet_hints",
        "tempolet_refused_manifests",
    ),
}
"""Prefixes by owner; the worker owns the rest."""


def owner_of(name: str) -> str:
    """Return the process that owns a family; empty: each process has its own."""
    if name.startswith(PER_PROCESS):
        return ""
    return next((owner for owner, prefixes in OWNED.items() if name.startswith(prefixes)), WORKER)


def merged_families(texts: Mapping[str, str]) -> list[Family]:
    """Merge texts, by process; a family of several processes gets one heading."""
    found: dict[str, Family] = {}
    for process, text in texts.items():
        for name, family in parse_families(text).items():
            owner = owner_of(name)
            if owner not in {"", process}:
                continue
            together = found.setdefault(name, Family(name, family.help, family.kind))
            if together.kind != family.kind:  # two releases side by side, during an upgrade
                continue
            label = f'process="{process}"'
            together.lines += family.lines if owner else [with_labels(line, label) for line in family.lines]
    return list(found.values())
