"""Does an installer's file, full of zeros that mean defaults, have the same meaning as for a kubelet?"""

from datetime import timedelta
from pathlib import Path

import pytest

from worker.daemon.config import NodeConfig, load_node_config
from worker.settings.flags import Flags
from worker.settings.kubelet.configuration import ACTED_ON, CLUSTER_KEYS
from worker.settings.kubelet.defaults import ZERO_MEANS_DEFAULT
from worker.settings.kubelet.schema import default_values, is_duration, leaves

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
SAID = """\
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization: {mode: Webhook}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
"""
"""What kubeadm means."""
WRITTEN = """\
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging:
  flushFrequency: 0
  options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
"""
"""What it writes."""


def load(tmp_path: Path, text: str) -> NodeConfig:
    """Read a configuration as a node of a cluster does."""
    file = tmp_path / "config.yaml"
    file.write_text(HEAD + text)
    return load_node_config(Flags(config=file, kubeconfig=tmp_path / "kubelet.conf", hostname_override="n"))


def test_kubeadms_zeros_are_the_kubelets_defaults(tmp_path: Path) -> None:
    """A status every 0s would be one without a pause."""
    assert load(tmp_path, WRITTEN) == load(tmp_path, SAID)


@pytest.mark.parametrize(
    ("text", "update", "report"),
    [
        pytest.param("", 10, 300, id="nothing-said"),
        pytest.param("nodeStatusUpdateFrequency: 20s", 20, 20, id="a-report-with-each-look"),
        pytest.param("nodeStatusUpdateFrequency: 20s\nnodeStatusReportFrequency: 0s", 20, 20, id="or-a-zero"),
        pytest.param("nodeStatusUpdateFrequency: 20s\nnodeStatusReportFrequency: 60s", 20, 60, id="both"),
        pytest.param("nodeStatusUpdateFrequency: 0m0s\nnodeStatusReportFrequency: 60s", 10, 60, id="zero-looks"),
        pytest.param("nodeStatusUpdateFrequency: 0s", 10, 300, id="a-zero-says-nothing"),
    ],
)
def test_how_often_the_status_is_told(tmp_path: Path, text: str, update: int, report: int) -> None:
    """One default depends on the other key, as in the kubelet."""
    cluster = load(tmp_path, text).cluster
    assert cluster is not None
    assert (cluster.status_every, cluster.report_every) == (timedelta(seconds=update), timedelta(seconds=report))


def test_every_zero_has_its_default() -> None:
    """A path that is no key, or one without a default, would be found only in the file of an operator."""
    assert dict(leaves(default_values())).keys() >= ZERO_MEANS_DEFAULT


def test_no_period_that_is_acted_on_is_forgotten() -> None:
    """Where zero has a meaning, or the kubelet can tell it from absent, it stays zero."""
    acted_on = dict(leaves(default_values())).keys() & (ACTED_ON | CLUSTER_KEYS)
    assert {path for path in acted_on - ZERO_MEANS_DEFAULT if is_duration(path)} == {
        "containerLogMonitorInterval",
        "cpuCFSQuotaPeriod",
        "crashLoopBackOff.maxContainerRestartPeriod",
        "imageMaximumGCAge",
        "shutdownGracePeriod",
        "shutdownGracePeriodCriticalPods",
    }
