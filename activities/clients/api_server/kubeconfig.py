"""A kubeconfig: the API server's address, its CA, and the client's credentials.

Each process of a cluster's node reads it. Files that it names are read when they are needed and again when they have
changed, so a rotated certificate or token is used without a restart (pkg/kubelet/certificate/transport.go closes
connections then, and so do we).
"""

import base64
import binascii
import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from activities.clients.api_server.exec_credential import VERSIONS, ExecCredential, ExecProgram

_UNSUPPORTED: Final = ("auth-provider", "as", "as-uid", "as-groups", "as-user-extra")
_UNSUPPORTED_CLUSTER: Final = ("proxy-url",)


class KubeconfigRefused(Exception):
    """A kubeconfig that cannot be used; the message names file, field and what is expected."""


@dataclass(frozen=True, slots=True)
class Material:
    """A certificate, key or token: the path of a file, or the bytes in the kubeconfig itself."""

    path: Path | None = None
    data: bytes = field(default=b"", repr=False)

    def __bool__(self) -> bool:
        return self.path is not None or bool(self.data)

    def read(self) -> bytes:
        """Return the bytes; raises KubeconfigRefused for a file that cannot be read."""
        if self.path is None:
            return self.data
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise KubeconfigRefused(f"{self.path}: cannot be read: {error.strerror}") from error

    def stamp(self) -> tuple[int, ...]:
        """Return a value that changes with the file; None if there is no file."""
        if self.path is not None:
            with contextlib.suppress(OSError):
                found = self.path.stat()  # of a link's target, which a rotation switches
                return (found.st_ino, found.st_mtime_ns, found.st_size)
        return ()


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The current context of a kubeconfig."""

    server: str
    """https://host:port, without a slash at the end."""
    authority: Material = Material()
    """Empty: the system's CAs."""
    insecure: bool = False
    server_name: str = ""
    certificate: Material = Material()
    key: Material = Material()
    token: Material = Material()
    rotated: Path | None = None
    """A file with certificate and key that takes precedence over the kubeconfig's own as soon as it exists."""
    program: ExecProgram | None = None
    """The program that gives credentials if the kubeconfig has none itself."""

    @property
    def pair(self) -> tuple[Material, Material]:
        """Return the client certificate and its key."""
        if self.rotated is not None and self.rotated.exists():
            return Material(self.rotated), Material(self.rotated)
        return self.certificate, self.key or self.certificate

    @property
    def stamp(self) -> tuple[tuple[int, ...], ...]:
        """Return a value that changes when any of the files does."""
        return tuple(one.stamp() for one in (self.authority, *self.pair, self.token))

    def tls(self, credential: ExecCredential | None = None) -> ssl.SSLContext:
        """Create the TLS context of new connections from the current files; raises KubeconfigRefused.

        `credential` is the credential from the kubeconfig's program.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            elif self.authority:
                context.load_verify_locations(cadata=self.authority.read().decode("ascii", "replace"))
            else:  # only if needed: the system's CAs take 2.5 MB
                context.load_default_certs()
            pair = (
                (Material(data=credential.certificate), Material(data=credential.key))
                if credential and credential.key
                else self.pair
            )
            if pair[0]:
                with _as_file(pair[0]) as certificate, _as_file(pair[1]) as key:
                    context.load_cert_chain(certificate, key)
        except (ssl.SSLError, ValueError) as error:
            raise KubeconfigRefused(f"the certificates for {self.server} cannot be used: {error}") from error
        except OSError as error:  # OpenSSL's error names no file
            files = " or ".join(dict.fromkeys(str(one.path) for one in self.pair if one.path))
            raise KubeconfigRefused(f"{files}: cannot be read: {error.strerror}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def headers(self, credential: ExecCredential | None = None) -> dict[str, str]:
        """Return the headers of each request; raises KubeconfigRefused."""
        if credential and credential.token:
            return {"Authorization": f"Bearer {credential.token}"}
        if not self.token:
            return {}
        return {"Authorization": f"Bearer {self.token.read().decode('ascii', 'replace').strip()}"}


def load_kubeconfig(path: Path) -> Kubeconfig:
    """Read the current context; relative paths are relative to the kubeconfig's folder. Raises KubeconfigRefused."""
    try:
        document = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    except OSError as error:
        raise KubeconfigRefused(f"{path}: cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise KubeconfigRefused(f"{path}: no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise KubeconfigRefused(f"{path}: no kubeconfig (kind: Config)")
    try:
        context = _named(document, "context", document.get("current-context") or "")
        cluster = _named(document, "cluster", context.get("cluster") or "")
        user = _named(document, "user", context["user"]) if context.get("user") else {}
    except LookupError as error:
        raise KubeconfigRefused(f"{path}: {error.args[0]}") from error
    for given, refused in ((user, _UNSUPPORTED), (cluster, _UNSUPPORTED_CLUSTER)):
        if wrong := next((key for key in refused if given.get(key)), ""):
            raise KubeconfigRefused(f"{path}: {wrong}: not supported; give a certificate or a token")
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise KubeconfigRefused(
            f"{path}: cluster.server: {server!r}, but it must be an address like https://10.0.0.1:6443"
        )
    return Kubeconfig(
        server=server,
        authority=_material(path, cluster, "certificate-authority"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=str(cluster.get("tls-server-name") or ""),
        certificate=_material(path, user, "client-certificate"),
        key=_material(path, user, "client-key"),
        token=_token(path, user),
        program=_program(path, user["exec"], cluster) if user.get("exec") else None,
    )


def _named(document: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    for entry in document.get(f"{kind}s") or ():
        if isinstance(entry, Mapping) and entry.get("name") == name and isinstance(entry.get(kind), Mapping):
            return dict(entry[kind])
    raise LookupError(f"{kind}s: none is named {name!r}")


def _material(path: Path, holder: Mapping[str, Any], key: str) -> Material:
    if inline := holder.get(f"{key}-data"):
        try:
            return Material(data=base64.b64decode(inline, validate=True))
        except (binascii.Error, TypeError, ValueError) as error:
            raise KubeconfigRefused(f"{path}: {key}-data: no base64") from error
    return Material(path.parent / holder[key]) if holder.get(key) else Material()


def _token(path: Path, user: Mapping[str, Any]) -> Material:
    if user.get("tokenFile"):
        return Material(path.parent / user["tokenFile"])
    return Material(data=str(user["token"]).encode()) if user.get("token") else Material()


def _program(path: Path, given: Mapping[str, Any], cluster: Mapping[str, Any]) -> ExecProgram:
    if given.get("apiVersion") not in VERSIONS or not given.get("command"):
        raise KubeconfigRefused(
            f"{path}: user.exec: it must have a command and an apiVersion ({' or '.join(VERSIONS)})"
        )
    if given.get("interactiveMode") == "Always":
        raise KubeconfigRefused(f"{path}: user.exec.interactiveMode: Always, but a node has no terminal")
    command = str(given["command"])
    if "/" in command:  # relative to the kubeconfig, like every path in it
        command = str(path.parent / command)
    return ExecProgram(
        command=command,
        api_version=given["apiVersion"],
        args=tuple(map(str, given.get("args") or ())),
        env={str(one["name"]): str(one.get("value", "")) for one in given.get("env") or ()},
        cluster={key: value for key, value in cluster.items() if key != "extensions"}
        if given.get("provideClusterInfo")
        else None,
        install_hint=" ".join(str(given.get("installHint") or "").split()),
    )


@contextlib.contextmanager
def _as_file(material: Material) -> Iterator[Path]:
    """Yield a file with these bytes, because `ssl` takes only files."""
    if material.path is not None:
        yield material.path
        return
    with tempfile.NamedTemporaryFile(prefix="tempolet-", dir=_memory_folder()) as held:  # 0600
        held.write(material.data)
        held.flush()
        yield Path(held.name)


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a key should not touch a disk
