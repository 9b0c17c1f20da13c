"""What the command line of `tempolet join` asks for: token, hashes and names, checked as far as that needs no machine. Pure."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from worker.joining.refusal import WrongRequest

DEFAULT_PORT: Final = 6443
_NODE_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""A DNS subdomain (RFC 1123), as the API server wants it."""
_LONGEST_NAME: Final = 253
_TEMPORAL: Final = re.compile(r"unix:///[!-~]+|(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_UNQUOTED: Final = re.compile(r"[A-Za-z0-9._~+/=:@,\[\]-]+")
"""What systemd's EnvironmentFile and the words of ExecStart leave as it is."""
_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
"""k8s.io/cluster-bootstrap token/api BootstrapTokenPattern."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_HASH_KIND: Final = "sha256"


@dataclass(frozen=True, slots=True)
class BootstrapToken:
    """A bootstrap token; its id is public, its secret is not."""

    id: str
    secret: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `id.secret`; raises WrongRequest, which never repeats the text."""
        found = _TOKEN.fullmatch(text.strip())
        if found is None:
            raise WrongRequest(
                "the token is not of the form ID.SECRET, which are 6 and 16 lower-case letters or digits: "
                "`kubeadm token create` makes one"
            )
        return cls(found[1], found[2])

    @property
    def text(self) -> str:
        """The token as a credential; only for the bootstrap kubeconfig, and never for a message."""
        return f"{self.id}.{self.secret}"


def ca_hashes(given: Iterable[str]) -> frozenset[str]:
    """Parse `sha256:<64 hex digits>` (cmd/kubeadm/app/util/pubkeypin); returns the digits. Raises WrongRequest."""
    found = set()
    for one in given:
        kind, _, digits = one.strip().partition(":")
        if kind.lower() != _HASH_KIND or not _HASH.fullmatch(digits.lower()):
            raise WrongRequest(f"--ca-hash {one!r}: it is sha256: and 64 hexadecimal digits")
        found.add(digits.lower())
    if not found:
        raise WrongRequest(
            "--ca-hash is missing: without it, any server could be taken for the cluster. "
            "`kubeadm token create --print-join-command` prints it, as --discovery-token-ca-cert-hash"
        )
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Temporal:
    """Where Temporal is, by its own variables."""

    address: str
    namespace: str = ""
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""
    api_key: str = field(default="", repr=False)

    def variables(self) -> Mapping[str, str]:
        """Return the variables of the services; raises WrongRequest for a value that cannot be written down."""
        if not _TEMPORAL.fullmatch(self.address):
            raise WrongRequest(f"--temporal {self.address!r}: it is HOST:PORT, or unix:///path of a socket")
        if self.namespace and not _NAMESPACE.fullmatch(self.namespace):
            raise WrongRequest(f"--temporal-namespace {self.namespace!r}: letters, digits, dots, dashes, underscores")
        if (self.certificate is None) != (self.key is None):
            raise WrongRequest("--temporal-tls-cert and --temporal-tls-key: give both, or neither")
        given = {
            "TEMPORAL_ADDRESS": self.address,
            "TEMPORAL_NAMESPACE": self.namespace,
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": _path(self.authority),
            "TEMPORAL_TLS_CLIENT_CERT_PATH": _path(self.certificate),
            "TEMPORAL_TLS_CLIENT_KEY_PATH": _path(self.key),
            "TEMPORAL_TLS_SERVER_NAME": self.server_name,
            "TEMPORAL_API_KEY": self.api_key,
        }
        for name, value in given.items():
            if value and not _UNQUOTED.fullmatch(value):
                shown = "its value" if name == "TEMPORAL_API_KEY" else repr(value)
                raise WrongRequest(f"{name}: {shown} has a character that systemd would change: use another")
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """One `tempolet join`."""

    server: str
    """https://host:port."""
    hashes: frozenset[str]
    temporal: Temporal
    token: BootstrapToken | None = None
    """None: the machine has a kubeconfig of this node already."""
    node_ip: str = ""
    hostname_override: str = ""
    endpoint: str = ""
    """--container-runtime-endpoint; empty: that of the configuration, else containerd's own."""
    config: Path | None = None
    tempolet_config: Path | None = None
    for_kubeadm: bool = False
    """`kubeadm join` brings the cluster and the configuration; server, hashes and token are empty."""

    def checked(self, node: str) -> Self:
        """Return it with the node's name as it counts; raises WrongRequest for names that are not valid."""
        if len(node) > _LONGEST_NAME or not _NODE_NAME.fullmatch(node):
            raise WrongRequest(
                f"the node's name {node!r} is no DNS name (lower-case letters, digits, dashes, dots): give another "
                "with --hostname-override"
            )
        try:
            for address in filter(None, self.node_ip.split(",")):
                ipaddress.ip_address(address)
        except ValueError as error:
            raise WrongRequest(f"--node-ip {self.node_ip!r}: {error}") from error
        if self.endpoint and not re.fullmatch(r"unix:///[A-Za-z0-9._/+-]+", self.endpoint):
            raise WrongRequest(f"--container-runtime-endpoint {self.endpoint!r}: it is unix:///path of a socket")
        self.temporal.variables()
        return replace(self, hostname_override=node if self.hostname_override else "")


def server_of(url: str) -> str:
    """Return https://host:port of an address as `kubeadm join` takes it, or of a URL; raises WrongRequest."""
    wrong = WrongRequest(f"{url!r}: it is the API server's address, for example https://10.0.0.1:6443")
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        port = parts.port or DEFAULT_PORT
    except ValueError:
        raise wrong from None
    more = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme != "https" or not parts.hostname or more or not _UNQUOTED.fullmatch(parts.netloc):
        raise wrong
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"https://{host}:{port}"


def _path(path: Path | None) -> str:
    return str(path.absolute()) if path is not None else ""
