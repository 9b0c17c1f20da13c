"""TLS bootstrapping: requests a client certificate with the bootstrap kubeconfig and writes the kubeconfig that uses it.

Runs before everything else in the node process; worker and poller wait for the kubeconfig (`worker/daemon/api_access.py`). As
in the kubelet (pkg/kubelet/certificate/bootstrap), nothing happens if there is a kubeconfig with a valid certificate. The key
is kept until its certificate is issued, so a restart continues the same request.
"""

import asyncio
import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.kubeconfig import Kubeconfig, KubeconfigRefused, load_kubeconfig
from activities.files.atomic_files import write_atomically
from worker.node.certificates.request import NotIssued, certificate_for
from worker.node.certificates.signing import client_certificate, new_key
from worker.node.certificates.store import CLIENT, CertificateStore
from worker.settings.cluster import ClusterSettings

PENDING_KEY: Final = "kubelet-client.key.tmp"
FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 32.0

_log: Final = structlog.get_logger(__name__)


async def bootstrap(cluster: ClusterSettings, node: str) -> None:
    """Make sure that there is a kubeconfig with a valid certificate, however long that takes.

    Does nothing without a bootstrap kubeconfig; raises KubeconfigRefused for an unusable one.
    """
    if cluster.bootstrap_kubeconfig is None or is_still_valid(cluster.kubeconfig, datetime.now(UTC)):
        return
    try:
        given = load_kubeconfig(cluster.bootstrap_kubeconfig)
    except KubeconfigRefused as error:
        raise KubeconfigRefused(
            f"--bootstrap-kubeconfig {error}; it is needed, for {cluster.kubeconfig} has no valid certificate"
        ) from error
    store = CertificateStore(cluster.cert_dir, CLIENT)
    key = pending_key(cluster.cert_dir / PENDING_KEY)
    pause = FIRST_PAUSE
    async with ApiServer(given, user_agent="tempolet-bootstrap") as api:
        while True:
            try:
                certificate = await certificate_for(api, client_certificate(node), key)
                store.update(certificate, key, datetime.now(UTC))
                break
            except (ApiAway, ApiRefused, NotIssued, ValueError) as error:
                _log.warning("no certificate for this node yet, requesting again", err=str(error), seconds=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
    write_kubeconfig(cluster.kubeconfig, given, store.current_path)
    (cluster.cert_dir / PENDING_KEY).unlink(missing_ok=True)
    _log.info(
        "this machine is bootstrapped as a node",
        kubeconfig=str(cluster.kubeconfig),
        certificate=str(store.current_path),
    )


def is_still_valid(path: Path, now: datetime) -> bool:
    """Report whether the kubeconfig has a client certificate that has not expired."""
    try:
        leaves = x509.load_pem_x509_certificates(load_kubeconfig(path).certificate.read())
    except (KubeconfigRefused, ValueError) as error:
        if path.exists():
            _log.warning("the existing kubeconfig cannot be used, requesting a new certificate", err=str(error))
        return False
    over = [one.not_valid_after_utc for one in leaves if now > one.not_valid_after_utc]
    if over:
        _log.warning("the certificate of the kubeconfig has expired, requesting a new one", path=str(path), at=over[0])
    return not over


def pending_key(path: Path) -> bytes:
    """Return the key of the pending request, or generate and save a new one."""
    try:
        key = path.read_bytes()
        load_pem_private_key(key, None)
        return key
    except (OSError, ValueError):
        key = new_key()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, key)
    return key


def write_kubeconfig(path: Path, given: Kubeconfig, pair: Path) -> None:
    """Write a kubeconfig with the node's certificate, in JSON, which is valid YAML."""
    cluster: dict[str, Any] = {"server": given.server}
    if given.insecure:
        cluster["insecure-skip-tls-verify"] = True
    if given.server_name:
        cluster["tls-server-name"] = given.server_name
    if given.authority.path is not None:
        cluster["certificate-authority"] = str(given.authority.path)
    elif given.authority:
        cluster["certificate-authority-data"] = base64.b64encode(given.authority.data).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default-cluster", "cluster": cluster}],
        "users": [{"name": "default-auth", "user": {"client-certificate": str(pair), "client-key": str(pair)}}],
        "contexts": [{"name": "default-context", "context": {"cluster": "default-cluster", "user": "default-auth"}}],
        "current-context": "default-context",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=2).encode())
