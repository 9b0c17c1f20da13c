"""Does a configuration that is read from /configz and written back start the same node?"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.worker.settings.test_config import HEAD
from worker.daemon.config import NodeConfig, load_node_config
from worker.settings.flags import Flags
from worker.settings.kubelet.configuration import ACTED_ON, CLUSTER_KEYS
from worker.settings.kubelet.schema import load_schema

SAID: Mapping[str, str] = {
    "nothing": "",
    "sources": "staticPodPath: m\nstaticPodURL: http://h/p\nstaticPodURLHeader: {A: [b, c]}\nhttpCheckFrequency: 5s\n"
    "fileCheckFrequency: 0s\nsyncFrequency: 20s",
    "runtime": "containerRuntimeEndpoint: unix:///r.sock\ncgroupRoot: /own\npodLogsDir: /logs\ncgroupDriver: systemd",
    "logs": "containerLogMaxSize: 20Mi\ncontainerLogMaxFiles: 3\ncontainerLogMaxWorkers: 2\ncontainerLogMonitorInterval: 3s",
    "names": "clusterDNS: [10.0.0.1]\nclusterDomain: c.local\nresolvConf: ''",
    "cgroup-v1-is-taken": "failCgroupV1: false",
    "swap-is-taken": "failSwapOn: false\nmemorySwap: {swapBehavior: LimitedSwap}",
    "kernel-settings-are-set": "protectKernelDefaults: false",
    "kernel-settings-are-checked": "protectKernelDefaults: true",
    "one-process-is-killed": "singleProcessOOMKill: true",
    "cpu": "cpuCFSQuota: false\ncpuCFSQuotaPeriod: 10ms\npodPidsLimit: 100",
    "own-cpus": "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\ncpuManagerReconcilePeriod: 3s\n"
    "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}",
    "numa-nodes": "memoryManagerPolicy: Static\nkubeReserved: {memory: 1Mi}\nevictionHard: {}\n"
    "reservedMemory: [{numaNode: 0, limits: {memory: 1Mi}}]\ntopologyManagerPolicy: restricted\ntopologyManagerScope: pod\n"
    "topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}",
    "memory": "featureGates: {MemoryQoS: true}\nmemoryThrottlingFactor: 0.5\nmemoryReservationPolicy: TieredReservation",
    "reserved": "kubeReserved: {cpu: 100m, pid: '7'}\nsystemReserved: {memory: 1Mi}\nevictionHard: {memory.available: 5%}",
    "defaults-merged": "evictionHard: {memory.available: 5%}\nmergeDefaultEvictionSettings: true",
    "no-thresholds": "evictionHard: {}",
    "enforced": "enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kube\nkubeReserved: {cpu: 100m}",
    "enforced-in-part": "enforceNodeAllocatable: [system-reserved-compressible]\nsystemReservedCgroup: /sys\n"
    "systemReserved: {cpu: 100m}",
    "own-processes": "kubeletCgroups: /k\nsystemCgroups: /s\ncgroupRoot: /\noomScoreAdj: 0\nmaxOpenFiles: 5000",
    "qos-reserved": "featureGates: {QOSReserved: true}\nqosReserved: {memory: 50%}",
    "nothing-enforced": "enforceNodeAllocatable: []",
    "soft": "evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}\n"
    "evictionMinimumReclaim: {memory.available: 10Mi}\nevictionPressureTransitionPeriod: 1m\nevictionMaxPodGracePeriod: 60\n"
    "kernelMemcgNotification: true",
    "no-storage-limits": "localStorageCapacityIsolation: false",
    "shutdown": "shutdownGracePeriod: 1m30s\nshutdownGracePeriodCriticalPods: 30s",
    "shutdown-by-priority": "shutdownGracePeriodByPodPriority: [{priority: 7, shutdownGracePeriodSeconds: 3}]",
    "pulls-in-series": "serializeImagePulls: true",
    "pulls-without-a-limit": "serializeImagePulls: false",
    "pulls-with-a-limit": "maxParallelImagePulls: 3\nregistryPullQPS: 0\nregistryBurst: 3",
    "images": "imageGCHighThresholdPercent: 60\nimageGCLowThresholdPercent: 50\nimageMinimumGCAge: 1h\nimageMaximumGCAge: 2h",
    "verified": "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\n"
    "preloadedImagesVerificationAllowlist: [r/a]",
    "not-verified": "featureGates: {KubeletEnsureSecretPulledImages: false}",
    "security": "seccompDefault: true\nallowedUnsafeSysctls: [net.*]\nuserNamespaces: {idsPerPod: 131072}",
    "back-off": "crashLoopBackOff: {maxContainerRestartPeriod: 20s}",
    "back-off-without-its-gate": "featureGates: {KubeletCrashLoopBackOffMax: false}",
    "ports": "healthzPort: 0\nhealthzBindAddress: 127.0.0.2",
    "logging": "logging: {format: json, verbosity: 4, flushFrequency: 0}",
    "traced": "tracing: {samplingRatePerMillion: 5}",
    "traced-elsewhere": "tracing: {endpoint: 'h:4317'}",
    "the-node": "registerNode: false\nregisterWithTaints: [{key: a, effect: NoSchedule}]\nproviderID: p\nmaxPods: 20\n"
    "nodeStatusMaxImages: -1\nnodeLeaseDurationSeconds: 20",
    "status": "nodeStatusUpdateFrequency: 20s",
    "status-reports": "nodeStatusUpdateFrequency: 20s\nnodeStatusReportFrequency: 1m",
    "events": "eventRecordQPS: 0\neventBurst: 7",
    "certificates": "rotateCertificates: true\nserverTLSBootstrap: true\ntlsCertFile: c\ntlsPrivateKeyFile: k\n"
    "tlsMinVersion: VersionTLS13\ntlsCipherSuites: [TLS_AES_128_GCM_SHA256]",
    "api": "enableServer: false\naddress: 10.0.0.1\nport: 10251\nreadOnlyPort: 10255\nenableDebuggingHandlers: false\n"
    "enableSystemLogHandler: false\nenableSystemLogQuery: false\nenableProfilingHandler: false\n"
    "enableDebugFlagsHandler: false\nstreamingConnectionIdleTimeout: 1h",
    "access": "authentication: {anonymous: {enabled: true}, webhook: {enabled: false, cacheTTL: 1s}, "
    "x509: {clientCAFile: /ca}}\nauthorization: {mode: AlwaysAllow, webhook: {cacheAuthorizedTTL: 1s, "
    "cacheUnauthorizedTTL: 2s}}",
}
"""Every key that is acted on; by what it is about."""


def node(file: Path, *, cluster: bool) -> NodeConfig:
    """Read a file as a node does."""
    return load_node_config(Flags(config=file, hostname_override="n", kubeconfig=Path("/kc") if cluster else None))


def without_texts(config: NodeConfig) -> NodeConfig:
    """Return what a node acts on."""
    return replace(config, kubelet={}, flags={}, warnings=())


@pytest.mark.parametrize("cluster", [False, True], ids=["standalone", "cluster"])
@pytest.mark.parametrize("about", SAID)
def test_what_is_in_force_written_back_starts_the_same_node(tmp_path: Path, about: str, *, cluster: bool) -> None:
    """As JSON, into another folder; what is in force then is the same text."""
    file, back = tmp_path / "kubelet.yaml", tmp_path / "elsewhere" / "kubelet.json"
    file.write_text(HEAD + SAID[about])
    first = node(file, cluster=cluster)
    back.parent.mkdir()
    back.write_text(json.dumps(first.kubelet))
    second = node(back, cluster=cluster)
    assert without_texts(second) == without_texts(first)
    assert second.kubelet == first.kubelet
    new = set(second.warnings) - set(first.warnings)
    assert not [one for one in new if "not a key" in one or (cluster and "no effect" in one)]


def paths(content: Any, path: str = "") -> set[str]:
    """List the dotted paths of what a text says."""
    found = {path.rstrip(".")}
    if isinstance(content, dict):
        for key, value in content.items():
            found |= paths(value, f"{path}{key}.")
    return found


def test_every_key_that_is_acted_on_is_written_back() -> None:
    """A key without a row here could get lost on the way."""
    said = set().union(*(paths(yaml.safe_load(text) or {}) for text in SAID.values()))
    assert (ACTED_ON | CLUSTER_KEYS) - said == {"apiVersion", "kind"}


@pytest.mark.parametrize(
    ("about", "key", "value"),
    [
        pytest.param("nothing", "failCgroupV1", False, id="cgroup-v1-runs"),
        pytest.param("nothing", "failSwapOn", False, id="swap-may-be-on"),
        pytest.param("nothing", "protectKernelDefaults", None, id="kernel-settings-are-left-alone"),
        pytest.param("kernel-settings-are-set", "protectKernelDefaults", False, id="kernel-settings-are-set"),
        pytest.param("nothing", "serializeImagePulls", False, id="pulls-are-parallel"),
        pytest.param("nothing", "maxParallelImagePulls", 4, id="up-to-four"),
        pytest.param("pulls-in-series", "maxParallelImagePulls", None, id="or-as-the-file-says"),
        pytest.param(
            "nothing",
            "evictionHard",
            {
                "memory.available": "100Mi",
                "nodefs.available": "10%",
                "nodefs.inodesFree": "5%",
                "imagefs.available": "15%",
                "imagefs.inodesFree": "5%",
            },
            id="the-default-thresholds",
        ),
        pytest.param("no-thresholds", "evictionHard", {}, id="no-thresholds"),
        pytest.param("nothing", "tracing", None, id="no-traces"),
        pytest.param("back-off-without-its-gate", "crashLoopBackOff", None, id="no-key-without-its-gate"),
        pytest.param("not-verified", "imagePullCredentialsVerificationPolicy", None, id="nor-this-one"),
    ],
)
def test_what_is_in_force(tmp_path: Path, about: str, key: str, value: Any) -> None:
    """Also where no file says it."""
    file = tmp_path / "kubelet.yaml"
    file.write_text(HEAD + SAID[about])
    shown = node(file, cluster=False).kubelet
    assert shown.get(key) == value
    assert set(shown) - set(load_schema().fields) == set()
