"""Finds the cluster: by the kubeconfig of a kubelet or of an earlier join, or behind an address, by a token.

The latter is two reads of cluster-info, with the proof of `cluster_info` between them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from activities.clients.api_server.api_server import ApiRefused, ApiServer
from activities.clients.api_server.cluster_info import read_cluster_info
from activities.clients.api_server.errors import ApiAway
from activities.clients.api_server.kubeconfig import Kubeconfig, KubeconfigRefused, Material, load_kubeconfig
from worker.joining import planned
from worker.joining.cluster_info import ClusterInfo, is_signed_for, pinned, refuse_another, signed_by
from worker.joining.places import Places
from worker.joining.refusal import ClusterNotProven, JoinRefused, WrongRequest
from worker.joining.request import BootstrapToken, JoinRequest

WITHIN: Final = timedelta(seconds=60)
"""For a server that starts, and for a signature, which comes some seconds after its token."""
ONE_READ: Final = timedelta(seconds=10)
BETWEEN: Final = timedelta(seconds=2)

Read = Callable[[str, bytes | None, timedelta], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The proven cluster, and how this machine speaks to it now."""

    server: str
    authority: bytes
    access: Kubeconfig
    bootstrap: bytes | None = None
    """The bootstrap kubeconfig; None: the node has its own already."""


def find_cluster(request: JoinRequest, places: Places, node: str, say: Callable[[str], None]) -> Cluster:
    """Prove the cluster by the kubeconfig that the machine has, or by the token; raises JoinRefused."""
    now = datetime.now(UTC)
    known = existing_node(places.kubeconfig, node, request.hashes, now)
    if known is not None and not known.expired:
        say(f"{places.kubeconfig} is valid for node {node} of this cluster, and is used as it is")
        return Cluster(known.kubeconfig.server, known.authority, known.kubeconfig)
    if request.token is None:
        raise WrongRequest(
            f"--token or --token-file is missing: {places.kubeconfig} "
            + ("has expired" if known else "does not exist")
            + "; `kubeadm token create` makes a token"
        )
    found = asyncio.run(Discovery(request.server, request.token, request.hashes).run())
    say(f"{request.server} is the cluster of this token and of --ca-hash; its address is {found.server}")
    token = request.token.text
    access = Kubeconfig(found.server, Material(data=found.authority), token=Material(data=token.encode()))
    asyncio.run(_refuse_ready_node(access, node))
    bootstrap = planned.bootstrap_kubeconfig(found.server, found.authority, token)
    return Cluster(found.server, found.authority, access, bootstrap)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What is known of the cluster beforehand, and how it is read."""

    server: str
    token: BootstrapToken
    hashes: frozenset[str]
    read: Read = read_cluster_info
    within: timedelta = WITHIN
    between: timedelta = BETWEEN

    async def run(self) -> ClusterInfo:
        """Return the proven cluster; raises ClusterNotProven, also with the last error when the time is over."""
        first = signed_by(await self._signed(None), self.token)
        authority = pinned(first.authority, self.hashes)
        refuse_another(first, await self._signed(authority))
        return first

    async def _signed(self, authority: bytes | None) -> dict[str, Any]:
        """Read until there is a signature by the token, right or wrong."""
        why = f"no answer from {self.server}"
        try:
            async with asyncio.timeout(self.within.total_seconds()):
                while True:
                    try:
                        found = await self.read(self.server, authority, ONE_READ)
                        if is_signed_for(found, self.token):
                            return found
                        signed_by(found, self.token)
                    except (ApiAway, ClusterNotProven) as error:
                        why = str(error)
                    await asyncio.sleep(self.between.total_seconds())
        except TimeoutError:
            raise ClusterNotProven(f"{why} (tried for {self.within.total_seconds():g} s)") from None


@dataclass(frozen=True, slots=True)
class ExistingNode:
    """A kubeconfig that this machine has."""

    kubeconfig: Kubeconfig
    authority: bytes
    expired: bool
    """Then it needs a token."""


def existing_node(path: Path, node: str, hashes: frozenset[str], now: datetime) -> ExistingNode | None:
    """Read the node's kubeconfig; None without one. Raises JoinRefused if it is another node's or another cluster's."""
    if not path.exists():
        return None
    what_now = "move it away to join with a token, or leave that cluster first"
    try:
        given = load_kubeconfig(path)
        authority = given.authority.read()
        pinned(authority, hashes)
        leaf = x509.load_pem_x509_certificates(given.certificate.read())[0]
    except (KubeconfigRefused, ValueError) as error:
        raise JoinRefused(f"{path} exists and cannot be used: {error}; {what_now}") from error
    except ClusterNotProven as error:
        raise JoinRefused(f"{path} exists and is of another cluster: {error}; {what_now}") from error
    wanted = f"system:node:{node}"
    names = [str(one.value) for one in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if wanted not in names:
        raise JoinRefused(
            f"{path} exists and is of the user {', '.join(names)}, not of {wanted}; {what_now}, or give --hostname-override"
        )
    return ExistingNode(given, authority, now > leaf.not_valid_after_utc)


async def _refuse_ready_node(access: Kubeconfig, node: str) -> None:
    """Refuse the name of a Node that is Ready: another machine has it. Without the right to ask, nothing is refused."""
    async with ApiServer(access, user_agent="tempolet-join") as api:
        try:
            found = await api.get(f"/api/v1/nodes/{node}")
        except ApiRefused as refused:
            if refused.status in (403, 404):
                return
            raise JoinRefused(f"the cluster does not accept the token: {refused}") from refused
        except ApiAway as error:
            raise JoinRefused(f"the cluster does not answer: {error}") from error
    conditions = (found.get("status") or {}).get("conditions") or ()
    if any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        raise JoinRefused(
            f"a Node {node} of the cluster is Ready already: give this machine another name with --hostname-override, or "
            f"`kubectl delete node {node}` if its machine is gone"
        )
