"""The flags of `tempolet worker`, `poller` and `node`, with the kubelet's names.

Parsed with argparse, because a command-line library would stay in the memory of these long-running processes; other
commands use the same table for their node flags. Most of the kubelet's flags are deprecated in favour of its file, so
only those still in use are here; each sets a key and takes precedence over the files.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn


class WrongUsage(Exception):
    """A command line that cannot be parsed; the message is one line."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The command line, as far as it configures a node; None for flags that were not given."""

    config: Path | None = None
    config_dir: Path | None = None
    tempolet_config: Path | None = None
    root_dir: Path | None = None
    hostname_override: str | None = None
    node_ip: str | None = None
    lock_file: Path | None = None
    runtime_cgroups: str | None = None
    feature_gates: str | None = None
    image_credential_provider_config: Path | None = None
    image_credential_provider_bin_dir: Path | None = None
    kubeconfig: Path | None = None
    bootstrap_kubeconfig: Path | None = None
    cert_dir: Path | None = None
    node_labels: str | None = None
    cloud_provider: str | None = None
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Flags that set a key of KubeletConfiguration: dotted path -> value."""
    said: Mapping[str, str] = field(default_factory=dict)
    """All flags that were given, as text: for /flagz."""


@dataclass(frozen=True, slots=True)
class KeyFlag:
    """A flag that sets a key of KubeletConfiguration."""

    name: str
    key: str
    help: str
    read: Callable[[str], Any] = str


def _list(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _headers(text: str) -> dict[str, list[str]]:
    """Parse `Name:value,Other:value`; a name may occur twice."""
    found: dict[str, list[str]] = {}
    for one in _list(text):
        name, colon, value = one.partition(":")
        if not colon or not name:
            # never the value: it may be a credential
            raise argparse.ArgumentTypeError("write Name:value,Other:value")
        found.setdefault(name, []).append(value.strip())
    return found


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _truth(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise argparse.ArgumentTypeError(f"{text!r}: write true or false")
    return text.lower() == "true"


_URL_HEADERS: Final = "staticPodURLHeader"

KEY_FLAGS: Final = (
    KeyFlag("container-runtime-endpoint", "containerRuntimeEndpoint", "the CRI socket, unix:///path"),
    KeyFlag("image-service-endpoint", "imageServiceEndpoint", "the CRI image socket, if different"),
    KeyFlag("pod-manifest-path", "staticPodPath", "folder (or file) of static pod manifests"),
    KeyFlag("file-check-frequency", "fileCheckFrequency", "interval of rescans of the manifests, e.g. 20s"),
    KeyFlag("manifest-url", "staticPodURL", "a URL that returns a Pod or PodList"),
    KeyFlag("manifest-url-header", _URL_HEADERS, "headers for that URL, Name:value,Other:value", _headers),
    KeyFlag("http-check-frequency", "httpCheckFrequency", "interval of requests to that URL, e.g. 20s"),
    KeyFlag("runtime-request-timeout", "runtimeRequestTimeout", "limit of a CRI call, e.g. 2m"),
    KeyFlag("cgroup-driver", "cgroupDriver", "cgroupfs or systemd, for a runtime that does not tell its own"),
    KeyFlag("cgroup-root", "cgroupRoot", "cgroup under which pods live"),
    KeyFlag("cluster-dns", "clusterDNS", "addresses of the cluster's DNS, comma-separated", _list),
    KeyFlag("cluster-domain", "clusterDomain", "domain of the cluster's DNS"),
    KeyFlag("resolv-conf", "resolvConf", "the node's resolver file"),
    KeyFlag("max-pods", "maxPods", "maximum number of pods on this node", _number),
    KeyFlag("pod-max-pids", "podPidsLimit", "maximum number of processes in a pod, -1: no limit", _number),
    KeyFlag("serialize-image-pulls", "serializeImagePulls", "true: one pull at a time", _truth),
    KeyFlag("registry-qps", "registryPullQPS", "pulls a second, 0: no limit", _number),
    KeyFlag("registry-burst", "registryBurst", "burst of pulls above that", _number),
    KeyFlag("healthz-port", "healthzPort", "port of the healthz endpoint, 0: none", _number),
    KeyFlag("healthz-bind-address", "healthzBindAddress", "address of the healthz endpoint"),
    KeyFlag("logging-format", "logging.format", "text or json"),
    KeyFlag("v", "logging.verbosity", "log verbosity", _number),
)

_OTHER_FLAGS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "config": ("KubeletConfiguration file", Path),
    "config-dir": ("folder of drop-ins (*.conf) for it", Path),
    "tempolet-config": ("TempoletConfiguration file: settings that a kubelet does not have", Path),
    "root-dir": ("folder of the node's state, /var/lib/kubelet", Path),
    "hostname-override": ("the node's name instead of the hostname", str),
    "node-ip": ("the node's address, or one of each family", str),
    "lock-file": ("a lock file to hold besides the node's own", Path),
    "runtime-cgroups": ("the cgroup in which the container runtime is, for /stats/summary", str),
    "image-credential-provider-config": ("CredentialProviderConfig, a file or a folder of them", Path),
    "image-credential-provider-bin-dir": ("folder of the credential providers' programs", Path),
    "kubeconfig": ("kubeconfig of the API server; without it the node is standalone", Path),
    "bootstrap-kubeconfig": ("kubeconfig used until the node has a certificate of its own", Path),
    "cert-dir": ("folder of the node's certificates, <root-dir>/pki", Path),
    "node-labels": ("labels that the node registers with, key=value,…", str),
    "cloud-provider": ("external if a cloud controller initializes nodes", str),
    "feature-gates": ("Name=true,Other=false", str),
}


class _OneLineParser(argparse.ArgumentParser):
    """Raises instead of printing the whole usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise WrongUsage(message)


def node_parser(prog: str, description: str) -> argparse.ArgumentParser:
    """Create the parser of a command that runs a node."""
    parser = _OneLineParser(prog=prog, description=description, allow_abbrev=False)
    for name, (what, read) in _OTHER_FLAGS.items():
        parser.add_argument(f"--{name}", help=what, type=read, metavar="VALUE")
    for flag in KEY_FLAGS:
        names = [f"--{flag.name}"] + (["-v"] if flag.name == "v" else [])
        parser.add_argument(*names, help=f"{flag.help} [{flag.key}]", type=flag.read, dest=flag.key, metavar="VALUE")
    return parser


def parse_node_flags(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> Flags:
    """Parse a command line; raises WrongUsage with one line."""
    found, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise WrongUsage(f"unknown argument {unknown[0]!r}; `{parser.prog} --help` lists them")
    given = vars(found)
    keys = {flag.key: given[flag.key] for flag in KEY_FLAGS if given[flag.key] is not None}
    others = {name: given[name.replace("-", "_")] for name in _OTHER_FLAGS}
    said = {flag.name: given[flag.key] for flag in KEY_FLAGS} | others
    if given[_URL_HEADERS] is not None:
        said["manifest-url-header"] = "CLASSIFIED"  # as component-base's flagz prints what may be a password
    return Flags(
        keys=keys,
        said={name: _text(value) for name, value in said.items() if value is not None},
        **{name.replace("-", "_"): value for name, value in others.items()},
    )


def _text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case list():
            return ",".join(value)
        case _:
            return str(value)
