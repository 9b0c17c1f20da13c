"""The pods that all peers get: one manifest each, the same text for the kubelet and for tempolet.

The main container sleeps as process 1 without a handler, so it ignores SIGTERM and every removal lasts its whole grace.
"""

from dataclasses import dataclass
from typing import Any, Final

import yaml

IMAGE: Final = "docker.io/library/busybox:1.37"
GRACE_SECONDS: Final = 1
NAMESPACE: Final = "default"
SLEEP: Final = ("sleep", "1000000")
TRUE: Final = ("true",)
INIT_CONTAINERS: Final = ("first", "second", "third")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod by name, with or without three init containers that end at once."""

    name: str
    init: bool = False

    @property
    def init_names(self) -> tuple[str, ...]:
        """Name the init containers in their order."""
        return INIT_CONTAINERS if self.init else ()

    def manifest(self) -> str:
        """Write the manifest."""
        spec: dict[str, Any] = {
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "containers": [{"name": "main", "image": IMAGE, "command": list(SLEEP)}],
        }
        if self.init:
            spec["initContainers"] = [{"name": name, "image": IMAGE, "command": list(TRUE)} for name in self.init_names]
        metadata = {"name": self.name, "namespace": NAMESPACE}
        return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
