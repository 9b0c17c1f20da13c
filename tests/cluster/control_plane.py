"""A real control plane for tests: etcd and kube-apiserver, and on request controller-manager and scheduler.

Started by the fixtures of `conftest`, by `make cluster` and by `make conformance`. Everything is on free loopback ports and below one
folder, the processes have pid files, and nothing is left when it has stopped. Authorization is Node,RBAC with NodeRestriction,
as in real clusters.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self

from tests.cluster.api import Api, Refused
from tests.cluster.binaries import find_binaries, find_etcd
from tests.cluster.certificates import Authority, Signed, make_key_pair
from tests.free_ports import free_ports
from tests.waiting import wait_until
from worker.standalone.machine.process import Command, Supervised
from worker.standalone.machine.process_log import last_lines
from worker.standalone.temporal_server import LOOPBACK

READY_WITHIN: Final = 120.0
STOP_WITHIN: Final = 3.0
"""Seconds until a process is killed: no test needs its data later, and an API server waits for its watches to end."""
SERVICES: Final = "10.96.0.0/16"
PROCESSES: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


class ControlPlaneFailed(Exception):
    """A process of the control plane did not start; carries the end of its log."""


@dataclass(slots=True)
class ControlPlane:
    """One control plane; a context manager that starts it and leaves nothing behind.

    `apiserver_flags` and the like are added to ours, and a later flag wins.
    """

    directory: Path
    binaries: Path | None = None
    """Folder of the Kubernetes programs; None: found or built."""
    controllers: bool = False
    """With controller-manager and scheduler."""
    apiserver_flags: Sequence[str] = ()
    controller_flags: Sequence[str] = ()
    port: int = 0
    """The API server's port; 0: a free one."""
    hosts: Sequence[str] = ()
    """More addresses and names for its certificate."""
    authority: Authority = field(init=False)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pki(self) -> Path:
        """The folder of keys and certificates; `ca.crt` is the authority that signed them all."""
        return self.directory / "pki"

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://{LOOPBACK}:{self.port}"

    @property
    def admin_kubeconfig(self) -> Path:
        """The kubeconfig of a cluster administrator."""
        return self.directory / "admin.kubeconfig"

    @property
    def api(self) -> Api:
        """The API server with the administrator's rights."""
        return Api(self.port, self.pki / "ca.crt", Signed(self.pki / "admin.crt", self.pki / "admin.key"))

    @property
    def programs(self) -> Path:
        """The folder of the Kubernetes programs; raises NoBinaries."""
        return self.binaries or find_binaries()

    def start(self) -> None:
        """Start everything and wait until the API server is ready, about 4 s; raises NoBinaries, ControlPlaneFailed."""
        programs = self.programs
        etcd = find_etcd()
        self.directory.mkdir(parents=True, exist_ok=True)
        etcd_port, peer_port, free_port = free_ports(3)
        self.port = self.port or free_port
        self._note.write_text(json.dumps({"port": self.port, "etcd": etcd_port}))
        self._make_keys()
        self._run("etcd", [etcd, *self._etcd_flags(etcd_port, peer_port)])
        self.start_apiserver()
        if self.controllers:
            self._run("kube-controller-manager", [programs / "kube-controller-manager", *self._controller_flags()])
            self._run("kube-scheduler", [programs / "kube-scheduler", *self._scheduler_flags()])
        self.until_default_account()

    def start_apiserver(self) -> None:
        """Start the API server, also after `stop_apiserver`, and wait until it is ready."""
        etcd_port = json.loads(self._note.read_text())["etcd"]
        program = self.programs / "kube-apiserver"
        self._run("kube-apiserver", [program, *self._apiserver_flags(etcd_port)])
        self._until_ready()

    def find_running(self) -> bool:
        """Find a control plane started by an earlier process and adopt it; returns whether one runs."""
        if not all(self._process(name).running() for name in PROCESSES[: 4 if self.controllers else 2]):
            return False
        self.port = json.loads(self._note.read_text())["port"]
        return True

    def stop_apiserver(self) -> None:
        """Stop the API server for a while: connections break, and nothing listens."""
        self._process("kube-apiserver").stop(STOP_WITHIN)

    def lose_etcd(self) -> None:
        """Delete all of etcd's data and start empty: another cluster with the same address and authority."""
        self.stop_apiserver()
        self._process("etcd").stop(STOP_WITHIN)
        shutil.rmtree(self.directory / "etcd")
        etcd_port = json.loads(self._note.read_text())["etcd"]
        self._run("etcd", [find_etcd(), *self._etcd_flags(etcd_port, free_ports(1)[0])])
        self.start_apiserver()
        self.until_default_account()

    def stop(self) -> None:
        """Stop every process and remove etcd's data."""
        with ExitStack() as every:
            every.callback(shutil.rmtree, self.directory / "etcd", ignore_errors=True)
            for name in PROCESSES:  # called in reverse
                every.callback(self._process(name).stop, STOP_WITHIN)

    def sign(self, name: str, *organizations: str, file: str = "") -> Signed:
        """Sign a client certificate for a user and its organizations (groups in the API)."""
        return self.authority.sign(file or name.replace(":", "-").replace("/", "-"), name, organizations)

    def kubeconfig(self, name: str, *organizations: str, file: str = "") -> Path:
        """Write a kubeconfig for a user with a certificate of its own; returns the file."""
        path = self.directory / f"{file or name.replace(':', '-')}.kubeconfig"
        return write_kubeconfig(path, self.server, self.pki / "ca.crt", self.sign(name, *organizations, file=file))

    def node_kubeconfig(self, node: str) -> Path:
        """Write the kubeconfig of system:node:<node>; returns the file."""
        return self.kubeconfig(f"system:node:{node}", "system:nodes")

    def make_namespace(self, name: str) -> str:
        """Create a namespace with what the controllers would add: the default service account and the root CA's ConfigMap."""
        try:
            self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        except Refused as refused:
            if refused.status != HTTPStatus.CONFLICT:
                raise
        if self.controllers:
            self.api.until(f"/api/v1/namespaces/{name}/serviceaccounts/default", bool)
            return name
        authority = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": (self.pki / "ca.crt").read_text()}}
        for plural, made in (("serviceaccounts", {"metadata": {"name": "default"}}), ("configmaps", authority)):
            try:
                self.api.create(f"/api/v1/namespaces/{name}/{plural}", made)
            except Refused as refused:
                if refused.status != HTTPStatus.CONFLICT:
                    raise
        return name

    def until_default_account(self) -> None:
        """Wait until pods can be created in the namespace `default`."""
        self.api.until("/api/v1/namespaces/default", bool)
        self.make_namespace("default")

    @property
    def _note(self) -> Path:
        return self.directory / "ports.json"

    def _make_keys(self) -> None:
        self.authority = Authority.make(self.pki)
        make_key_pair(self.pki / "sa.key", self.pki / "sa.pub")
        hosts = (
            LOOPBACK,
            "10.96.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            *self.hosts,
        )
        self.authority.sign("apiserver", "kube-apiserver", hosts=hosts)
        self.authority.sign("kubeletclient", "kube-apiserver-kubelet-client", ["system:masters"])
        admin = self.authority.sign("admin", "admin", ["system:masters"])
        write_kubeconfig(self.admin_kubeconfig, self.server, self.pki / "ca.crt", admin)

    def _etcd_flags(self, port: int, peer_port: int) -> list[str | Path]:
        client, peer = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{peer_port}"
        return [
            *("--data-dir", self.directory / "etcd", "--unsafe-no-fsync", "--log-level", "error"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
        ]

    def _apiserver_flags(self, etcd_port: int) -> list[str | Path]:
        pki = self.pki
        return [
            *("--etcd-servers", f"http://{LOOPBACK}:{etcd_port}"),
            *("--bind-address", LOOPBACK, "--advertise-address", LOOPBACK, "--secure-port", str(self.port)),
            *("--tls-cert-file", pki / "apiserver.crt", "--tls-private-key-file", pki / "apiserver.key"),
            *("--client-ca-file", pki / "ca.crt", "--enable-bootstrap-token-auth"),
            *("--service-account-key-file", pki / "sa.pub", "--service-account-signing-key-file", pki / "sa.key"),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction"),
            *("--service-cluster-ip-range", SERVICES, "--endpoint-reconciler-type", "none", "--allow-privileged"),
            *("--kubelet-client-certificate", pki / "kubeletclient.crt"),
            *("--kubelet-client-key", pki / "kubeletclient.key", "--kubelet-preferred-address-types", "InternalIP"),
            *self.apiserver_flags,
        ]

    def _controller_flags(self) -> list[str | Path]:
        pki = self.pki
        return [
            *("--kubeconfig", self.admin_kubeconfig, "--secure-port", "0", "--leader-elect=false"),
            *("--service-account-private-key-file", pki / "sa.key", "--root-ca-file", pki / "ca.crt"),
            *("--cluster-signing-cert-file", pki / "ca.crt", "--cluster-signing-key-file", pki / "ca.key"),
            "--use-service-account-credentials",
            *self.controller_flags,
        ]

    def _scheduler_flags(self) -> list[str | Path]:
        return ["--kubeconfig", self.admin_kubeconfig, "--secure-port", "0", "--leader-elect=false"]

    def _process(self, name: str) -> Supervised:
        return Supervised(self.directory / f"{name}.pid")

    def _run(self, name: str, argv: Sequence[str | Path]) -> None:
        environment = {"no_proxy": "127.0.0.1,localhost", "NO_PROXY": "127.0.0.1,localhost"}
        self._process(name).start(Command(argv, self._log(name), environment))

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _until_ready(self) -> None:
        log = self._log("kube-apiserver")
        try:
            wait_until(self._is_ready, "the API server is ready", READY_WITHIN)
        except TimeoutError as error:
            raise ControlPlaneFailed(f"{error}; {log} ends:\n{last_lines(log)}") from None

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError, Refused):  # not up yet
            if self.api.get("/readyz") == "ok":
                return True
        if gone := next((name for name in PROCESSES[:2] if not self._process(name).running()), ""):
            raise ControlPlaneFailed(f"{gone} has ended; {self._log(gone)} ends:\n{last_lines(self._log(gone))}")
        return False


def write_kubeconfig(path: Path, server: str, authority: Path, identity: Signed) -> Path:
    """Write a kubeconfig with one context, in JSON, which is valid YAML; returns the file."""
    user = {"client-certificate": str(identity.certificate), "client-key": str(identity.key)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(json.dumps(content, indent=1))
    os.chmod(path, 0o600)  # noqa: PTH101 - as the key that it names
    return path
