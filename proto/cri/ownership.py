"""Whose a sandbox or a container is: the annotation by which a node's tempolet knows its own objects in a runtime it may share.

The poller writes it into each pod it starts, the sandbox activity copies a pod's annotations to its sandbox, and only
sandboxes that carry it are ever adopted or removed: a foreign containerd may hold the pods of a kubelet.
"""

from typing import Final

NODE_ANNOTATION: Final = "tempolet.dev/node"

HOOK_LABEL: Final = "tempolet.dev/hook"
"""On the container that runs a hook's command: which hook. It is none of the pod's, whoever reads the runtime."""
HOOK_POD_UID: Final = "tempolet.dev/hook-pod-uid"
HOOK_CONTAINER: Final = "tempolet.dev/hook-container"
