"""The annotation by which a node's tempolet recognizes its own sandboxes in a shared runtime.

The poller sets it on each pod it starts, and the sandbox activity copies a pod's annotations to its sandbox. A
containerd may also hold the pods of a kubelet. Only one whose --root-dir is this node's was here before: its pods, which
have folders there, are the node's as well.
"""

from collections.abc import Collection, Mapping
from typing import Final

NODE_ANNOTATION: Final = "tempolet.dev/node"

DEVICES_ANNOTATION: Final = "tempolet.dev/devices"
"""On a container that has devices of plugins: which, as JSON, by resource and NUMA node; read if the node has lost its checkpoint."""

HOOK_LABEL: Final = "tempolet.dev/hook"
"""On the container that runs a hook's command: the hook. Readers of the runtime must not take it for one of the pod's."""
HOOK_POD_UID: Final = "tempolet.dev/hook-pod-uid"
HOOK_CONTAINER: Final = "tempolet.dev/hook-container"


def is_of_node(annotations: Mapping[str, str], uid: str, node: str, folders: Collection[str]) -> bool:
    """Report whether a sandbox is this node's: by its annotation, or without one by the folder of its pod in --root-dir."""
    marked = annotations.get(NODE_ANNOTATION)
    return uid in folders if marked is None else marked == node
