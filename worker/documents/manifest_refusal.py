"""Limits on the size and depth of a manifest, and the error for one that cannot be read.

Raised by the readers of YAML and JSON. The limits keep the poller's memory bounded whatever is in the folder; a pod
that fits into Temporal and etcd is far below them.
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
