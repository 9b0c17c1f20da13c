"""Stop signals in the API's words (SIGRTMIN+1) and in the CRI's (SIGRTMINPLUS1).

Asked for what a container is created with and for what the runtime tells of it. A runtime that knows nothing of them
(containerd before 2.3) takes no notice and tells of none: the image's own stop signal counts then, or SIGTERM.
"""

from proto.cri.v1 import api_pb2 as cri


def cri_signal(name: str) -> str | None:
    """Name a signal as CRI does; an empty name leaves it to the image."""
    return name.replace("+", "PLUS").replace("-", "MINUS") or None


def signal_name(number: int) -> str:
    """Write a signal as the API does; empty where the runtime does not say (kuberuntime_container.go toKubeContainerStatus)."""
    if number == cri.RUNTIME_DEFAULT or number not in cri.Signal.values():
        return ""
    return cri.Signal.Name(number).replace("PLUS", "+").replace("MINUS", "-")
