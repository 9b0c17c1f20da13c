"""What to say of a pod that is not found: that its manifest is refused and why, or that it goes by another name.

Asked by the commands about one pod. A manifest's pod has its node's name behind its own, and an operator asks by the name
that he has written.
"""

from proto.refusals import Refusal, read_refusals
from worker.commands.access.node_view import NodeView, notes
from worker.daemon.config import NodeConfig
from worker.poller.manifests.static_pod import static_pod_name


def refusals_of(config: NodeConfig, namespace: str, name: str) -> list[Refusal]:
    """Find the refused manifests of this node that would give a pod of that name, with the node's behind it or not."""
    names = {f"{namespace}/{name}", f"{namespace}/{full_name(config, name)}"}
    return [one for one in read_refusals(config.root_dir) if one.pod in names]


def full_name(config: NodeConfig, name: str) -> str:
    """Give the name of this node's pod whose manifest says `name`."""
    return static_pod_name(name, config.node_name)


def what_instead(config: NodeConfig, namespace: str, name: str, *, full_name_known: bool) -> str:
    """Say why a pod of this name is not found, or by which it is; empty where nothing is known of it."""
    said = list(notes(NodeView(refusals=refusals_of(config, namespace, name))))
    if full_name_known:
        said.append(f"a manifest's pod has its node's name behind its own: {namespace}/{full_name(config, name)}")
    return "; ".join(said)
