"""Converts stop signals between the API's names (SIGRTMIN+1) and the CRI's (SIGRTMINPLUS1).

A runtime that does not support them (containerd before 2.3) ignores them and reports none: then the image's own stop
signal counts, or SIGTERM.
"""

from proto.cri.v1 import api_pb2 as cri


def cri_signal(name: str) -> str | None:
    """Return CRI's name of a signal; empty leaves it to the image."""
    return name.replace("+", "PLUS").replace("-", "MINUS") or None


def signal_name(number: int) -> str:
    """Return the API's name of a signal.

    Empty if the runtime reports none (kuberuntime_container.go toKubeContainerStatus).
    """
    if number == cri.RUNTIME_DEFAULT or number not in cri.Signal.values():
        return ""
    return cri.Signal.Name(number).replace("PLUS", "+").replace("MINUS", "-")
