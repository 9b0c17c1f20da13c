"""What to report for a pod that is not found: its manifest is refused, or it has another name.

The name of a static pod has the node's name as a suffix, but operators ask by the name in the manifest.
"""

from proto.refusals import Refusal, read_refusals
from worker.commands.access.node_view import NodeView, notes
from worker.daemon.config import NodeConfig
from worker.poller.manifests.static_pod import static_pod_name


def refusals_of(config: NodeConfig, namespace: str, name: str) -> list[Refusal]:
    """Return the refused manifests of this node that would give a pod of that name, with or without the suffix."""
    names = {f"{namespace}/{name}", f"{namespace}/{full_name(config, name)}"}
    return [one for one in read_refusals(config.root_dir) if one.pod in names]


def full_name(config: NodeConfig, name: str) -> str:
    """Return the name of this node's static pod whose manifest says `name`."""
    return static_pod_name(name, config.node_name)


def suggestion(config: NodeConfig, namespace: str, name: str, *, full_name_known: bool) -> str:
    """Say why a pod of this name is not found, or its full name; empty if neither is known."""
    said = list(notes(NodeView(refusals=refusals_of(config, namespace, name))))
    if full_name_known:
        said.append(f"the name of a static pod ends with its node's name: {namespace}/{full_name(config, name)}")
    return "; ".join(said)
