"""How large and how deep a manifest may be, and the error of one that cannot be read at all.

Raised by the readers of YAML and JSON, turned into a `Refused` by `manifest`. The bounds keep the poller's memory flat
whatever lies in the folder; a pod that Temporal and etcd can hold stays far below them.
"""

from typing import Final

LARGEST_FILE: Final = 10 * 2**20  # bytes; the kubelet's maxConfigLength, pkg/kubelet/config/common.go
LARGEST_POD: Final = 1536 * 2**10  # bytes of JSON; etcd's request limit, and a Temporal payload ends at 2 MB
MOST_VALUES: Final = 100_000
MOST_CHARACTERS: Final = LARGEST_FILE
DEEPEST: Final = 100


class ManifestUnreadable(Exception):
    """The bytes are no document; `reason` is one CamelCase word, the message names line or field."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
