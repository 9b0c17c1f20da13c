"""Reads kube-public/cluster-info from a server that is not trusted yet, as `tempolet join` needs it.

No credential is sent: the ConfigMap is public. What comes back is bounded in bytes and time, and no redirect is followed. Whether it is to be
believed is decided by `worker/joining/cluster_info.py`.
"""

import json
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

import aiohttp

from activities.clients.api_server.connection_errors import wrong_dates
from activities.clients.api_server.errors import ApiAway
from activities.clients.api_server.kubeconfig import Kubeconfig, KubeconfigRefused, Material

PATH: Final = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
LARGEST: Final = 2 * 2**20
"""Bytes; a ConfigMap has at most 1 MiB."""


async def read_cluster_info(server: str, authority: bytes | None, within: timedelta) -> dict[str, Any]:
    """Read the ConfigMap; `authority` (PEM) must have signed the server's certificate, None: any certificate.

    Raises ApiAway for everything else than one JSON object.
    """
    try:
        timeout = aiohttp.ClientTimeout(total=within.total_seconds())
        tls = Kubeconfig(server, Material(data=authority or b""), insecure=authority is None).tls()
        connector = aiohttp.TCPConnector(ssl=tls, limit=1)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session,
            session.get(
                f"{server}{PATH}",
                headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "tempolet-join"},
                allow_redirects=False,
            ) as response,
        ):
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > LARGEST:
                    raise ApiAway(f"{server} answers with more than {LARGEST} bytes: it is no API server")
            return _decoded(server, response.status, bytes(body))
    except aiohttp.ClientConnectorCertificateError as error:
        why = wrong_dates(error.certificate_error) or "was not signed by the cluster's CA, or is not for this address"
        raise ApiAway(f"the certificate of {server} {why}") from error
    except (aiohttp.ClientError, KubeconfigRefused, TimeoutError, OSError, ValueError) as error:
        raise ApiAway(f"no answer from {server}: {str(error) or type(error).__name__}") from error


def _decoded(server: str, status: int, body: bytes) -> dict[str, Any]:
    if status != HTTPStatus.OK:
        raise ApiAway(f"{server}{PATH}: {status} {body[:200].decode('utf-8', 'replace')!r}", status=status)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiAway(f"{server}{PATH}: the answer is not JSON") from error
    if not isinstance(found, dict):
        raise ApiAway(f"{server}{PATH}: the answer is no object")
    return found
