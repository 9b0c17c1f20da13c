"""Settings of a node of a cluster: the keys and flags that have no meaning without an API server.

Without a kubeconfig all of them are ignored: a kubelet without one is standalone, and so is tempolet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from worker.settings.flags import Flags
from worker.settings.kubelet.configuration import ConfigurationRefused, KubeletConfiguration

DEFAULT_CERT_DIR: Final = Path("/var/lib/kubelet/pki")
CLIENT_CERTIFICATE: Final = "kubelet-client-current.pem"
"""In the certificate folder: a link to the newest client certificate and its key (client-go util/certificate)."""
SERVER_CERTIFICATE: Final = "kubelet-server-current.pem"
_ALLOWED_PREFIXES: Final = ("kubelet.kubernetes.io/", "node.kubernetes.io/")
_KUBERNETES: Final = ("kubernetes.io", "k8s.io")
OWN_LABELS: Final = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
)
"""Kubernetes' own labels that a node may set on itself (cmd/kubelet/app/options ValidateKubeletFlags), and that are
kept up to date on its object as long as they are configured (pkg/kubelet/kubelet_node_status.go updateDefaultLabels).
"""


@dataclass(frozen=True, slots=True)
class Authentication:
    """Who may use the node's API, and how clients are identified."""

    anonymous: bool = False
    webhook: bool = True
    webhook_ttl: timedelta = timedelta(minutes=2)
    client_ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Authorization:
    """What clients may do."""

    always_allow: bool = False
    allowed_ttl: timedelta = timedelta(minutes=5)
    denied_ttl: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Serving:
    """The node's HTTPS API on 10250."""

    enabled: bool = True
    address: str = "0.0.0.0"  # noqa: S104 - the kubelet's default; behind authentication
    port: int = 10250
    read_only_port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    bootstrap: bool = False
    """The certificate is requested from the API server: serverTLSBootstrap."""
    min_version: str = ""
    cipher_suites: tuple[str, ...] = ()
    debugging: bool = True
    """/run, /exec, /attach, /portForward, /containerLogs, /logs, /debug: enableDebuggingHandlers."""
    system_logs: bool = True
    log_query: bool = False
    profiling: bool = True
    flags_handler: bool = True
    streaming_idle: timedelta = timedelta(hours=4)
    authentication: Authentication = Authentication()
    authorization: Authorization = Authorization()


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How this node belongs to its cluster."""

    kubeconfig: Path
    bootstrap_kubeconfig: Path | None = None
    cert_dir: Path = DEFAULT_CERT_DIR
    rotate_certificates: bool = False
    register: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    """--node-labels."""
    taints: tuple[Mapping[str, Any], ...] = ()
    provider_id: str = ""
    external_cloud: bool = False
    """--cloud-provider=external: the node is tainted until a cloud controller has initialized it."""
    status_every: timedelta = timedelta(seconds=10)
    report_every: timedelta = timedelta(minutes=5)
    lease_seconds: int = 40
    most_images: int = 50
    """Maximum number in the node's status; -1: all."""
    event_qps: int = 50
    event_burst: int = 100
    serving: Serving = Serving()

    @property
    def rotates_client_certificate(self) -> bool:
        """Report whether the node rotates its client certificate itself."""
        return self.rotate_certificates or self.bootstrap_kubeconfig is not None

    @property
    def client_pair(self) -> Path | None:
        """Return the link to the client certificate and key that the node rotates; None if only the kubeconfig's exist."""
        return self.cert_dir / CLIENT_CERTIFICATE if self.rotates_client_certificate else None


def cluster_settings(flags: Flags, kubelet: KubeletConfiguration, root_dir: Path) -> ClusterSettings | None:
    """Read the settings of a cluster; None for a standalone node. Raises ConfigurationRefused."""
    if flags.kubeconfig is None:
        if flags.bootstrap_kubeconfig is not None:
            raise ConfigurationRefused("--bootstrap-kubeconfig: --kubeconfig is required too: the file to write")
        return None
    if flags.cloud_provider not in (None, "", "external"):
        raise ConfigurationRefused(f"--cloud-provider {flags.cloud_provider!r}: it is external or empty")
    return ClusterSettings(
        kubeconfig=flags.kubeconfig.absolute(),
        bootstrap_kubeconfig=flags.bootstrap_kubeconfig.absolute() if flags.bootstrap_kubeconfig else None,
        cert_dir=(flags.cert_dir or root_dir / "pki").absolute(),
        rotate_certificates=bool(kubelet["rotateCertificates"]),
        register=kubelet["registerNode"],
        labels=node_labels(flags.node_labels or ""),
        taints=tuple(kubelet["registerWithTaints"] or ()),
        provider_id=kubelet["providerID"] or "",
        external_cloud=flags.cloud_provider == "external",
        status_every=kubelet["nodeStatusUpdateFrequency"],
        report_every=kubelet["nodeStatusReportFrequency"],
        lease_seconds=kubelet["nodeLeaseDurationSeconds"],
        most_images=kubelet["nodeStatusMaxImages"],
        event_qps=kubelet["eventRecordQPS"],
        event_burst=kubelet["eventBurst"],
        serving=_serving(kubelet),
    )


def node_labels(text: str) -> dict[str, str]:
    """Parse --node-labels; raises ConfigurationRefused for Kubernetes' labels that a node must not set itself."""
    found = {}
    for one in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise ConfigurationRefused(f"--node-labels {one!r}: must be key=value")
        domain = key.partition("/")[0] if "/" in key else ""
        of_kubernetes = any(domain == one or domain.endswith(f".{one}") for one in _KUBERNETES)
        allowed = key in OWN_LABELS or any(f"{domain}/".endswith(prefix) for prefix in _ALLOWED_PREFIXES)
        if of_kubernetes and not allowed:
            raise ConfigurationRefused(f"--node-labels {key}: a node must not set this label itself")
        found[key] = value
    return found


def _serving(kubelet: KubeletConfiguration) -> Serving:
    authentication = Authentication(
        anonymous=bool(kubelet["authentication.anonymous.enabled"]),
        webhook=bool(kubelet["authentication.webhook.enabled"]),
        webhook_ttl=kubelet["authentication.webhook.cacheTTL"],
        client_ca_file=_path(kubelet["authentication.x509.clientCAFile"]),
    )
    authorization = Authorization(
        always_allow=kubelet["authorization.mode"] == "AlwaysAllow",
        allowed_ttl=kubelet["authorization.webhook.cacheAuthorizedTTL"],
        denied_ttl=kubelet["authorization.webhook.cacheUnauthorizedTTL"],
    )
    return Serving(
        enabled=kubelet["enableServer"],
        address=kubelet["address"],
        port=kubelet["port"],
        read_only_port=kubelet["readOnlyPort"] or 0,
        certificate=_path(kubelet["tlsCertFile"]),
        key=_path(kubelet["tlsPrivateKeyFile"]),
        bootstrap=bool(kubelet["serverTLSBootstrap"]),
        min_version=kubelet["tlsMinVersion"] or "",
        cipher_suites=tuple(kubelet["tlsCipherSuites"] or ()),
        debugging=kubelet["enableDebuggingHandlers"],
        system_logs=kubelet["enableSystemLogHandler"],
        log_query=bool(kubelet["enableSystemLogQuery"]),
        profiling=kubelet["enableProfilingHandler"],
        flags_handler=kubelet["enableDebugFlagsHandler"],
        streaming_idle=kubelet["streamingConnectionIdleTimeout"],
        authentication=authentication,
        authorization=authorization,
    )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
