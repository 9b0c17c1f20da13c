"""The annotation by which a node's tempolet recognizes its own sandboxes in a shared runtime.

The poller sets it on each pod it starts, and the sandbox activity copies a pod's annotations to its sandbox. Only
sandboxes with it are ever adopted or removed, because a containerd may also hold the pods of a kubelet.
"""

from typing import Final

NODE_ANNOTATION: Final = "tempolet.dev/node"

HOOK_LABEL: Final = "tempolet.dev/hook"
"""On the container that runs a hook's command: the hook. Readers of the runtime must not take it for one of the pod's."""
HOOK_POD_UID: Final = "tempolet.dev/hook-pod-uid"
HOOK_CONTAINER: Final = "tempolet.dev/hook-container"
