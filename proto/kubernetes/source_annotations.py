"""The annotations by which a pod tells where it came from, by the kubelet's names (pkg/kubelet/types/pod_update.go).

Written by the poller, read by whoever treats a static pod or its mirror otherwise.
"""

from typing import Final

SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
"""From where it comes: file, http, api."""
SEEN_ANNOTATION: Final = "kubernetes.io/config.seen"
"""When it was read."""
HASH_ANNOTATION: Final = "kubernetes.io/config.hash"
"""Of a static pod: which version of its manifest it is."""
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""Of a mirror pod: which version of its static pod it stands for."""
