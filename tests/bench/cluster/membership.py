"""The cluster of both agents: one control plane, an address for each node, and an audit log of their requests."""

import contextlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.peers.place import HOME, Place
from tests.cluster.cluster_node import node_address
from tests.cluster.control_plane import ControlPlane

PLANE: Final = HOME / "plane"
AUDIT: Final = PLANE / "audit.log"
POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:nodes"]}, {"level": "None"}],
}
"""An audit policy that logs only the nodes' requests."""


@dataclass(frozen=True, slots=True)
class Membership:
    """One peer's membership in the cluster."""

    plane: ControlPlane
    node: str
    node_ip: str

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of system:node:<node>."""
        return self.plane.node_kubeconfig(self.node)

    @property
    def client_ca(self) -> Path:
        """The authority that signs the clients of the node's own API."""
        return self.plane.pki / "ca.crt"


@contextlib.contextmanager
def control_plane() -> Iterator[ControlPlane]:
    """Run the control plane while the block runs; nothing of it is left."""
    shutil.rmtree(PLANE, ignore_errors=True)
    PLANE.mkdir(parents=True)
    policy = PLANE / "policy.json"
    policy.write_text(json.dumps(POLICY))
    flags = ["--audit-policy-file", str(policy), "--audit-log-path", str(AUDIT)]
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, PLANE, ignore_errors=True)
        yield stack.enter_context(ControlPlane(PLANE, controllers=True, apiserver_flags=flags))


@contextlib.contextmanager
def membership(plane: ControlPlane, place: Place) -> Iterator[Membership]:
    """Yield a node name and an address for a peer while the block runs."""
    with node_address(f"tplbenchn{place.number}", f"10.216.{place.number}.1") as address:
        yield Membership(plane, place.name, address)


def requests_of(node: str, since: int) -> tuple[Counter[str], int]:
    """Count a node's requests by verb and resource, from an offset of the audit log; returns the new offset, too."""
    found: Counter[str] = Counter()
    with AUDIT.open("rb") as record:
        record.seek(since)
        for line in record:
            if not line.endswith(b"\n"):
                break  # an incomplete line is read next time
            since += len(line)
            event = json.loads(line)
            if event["user"]["username"] == f"system:node:{node}" and event["stage"] != "ResponseStarted":
                found[f"{event['verb']} {event.get('objectRef', {}).get('resource', '-')}"] += 1
        return found, since
