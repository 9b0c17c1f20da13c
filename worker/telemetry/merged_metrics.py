"""One text of /metrics from the texts of three processes. Pure.

A dashboard knows one kubelet. What every process counts for itself (its memory, its CRI calls, its requests to the API server)
gets a label `process`: summed up, a counter would seem to begin anew whenever one of the three does, and every `rate` of it would
jump. All else has one owner, whose series are left as they are, and what another process says of that is dropped: it is the 0 of
somebody who does not know.
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
)
"""Prefixes of what each process counts for itself."""
OWNED: Final[Mapping[str, tuple[str, ...]]] = {
    NODE: (
        "kubelet_node_name",
        "kubelet_node_startup_",
        "kubelet_certificate_manager_",
        "kubelet_server_expiration_",
        "kubelet_http_",
        "kubelet_volume_stats_",
        "kubelet_pod_resources_",
        "kubelet_cgroup_version",
        "kubernetes_",
        "volume_manager_",
        "tempolet_process_",
    ),
    POLLER: (
        "kubelet_pleg_",
        "kubelet_evented_pleg_",
        "kubelet_mirror_pods",
        "kubelet_pod_watch_",
        "tempolet_hints",
        "tempolet_refused_manifests",
    ),
}
"""Prefixes by who knows; all else is the worker's."""


def owner_of(name: str) -> str:
    """Say which process knows a family; empty: each counts its own."""
    if name.startswith(PER_PROCESS):
        return ""
    return next((owner for owner, prefixes in OWNED.items() if name.startswith(prefixes)), WORKER)


def merged_families(texts: Mapping[str, str]) -> list[Family]:
    """Put texts, by process, together; a family that several have gets one heading."""
    found: dict[str, Family] = {}
    for process, text in texts.items():
        for name, family in parse_families(text).items():
            owner = owner_of(name)
            if owner not in {"", process}:
                continue
            together = found.setdefault(name, Family(name, family.help, family.kind))
            if together.kind != family.kind:  # two releases side by side, during an upgrade
                continue
            said = f'process="{process}"'
            together.lines += family.lines if owner else [with_labels(line, said) for line in family.lines]
    return list(found.values())
