"""The kubelet's annotations about a pod's source (pkg/kubelet/types/pod_update.go).

Written by the poller; read wherever a static pod or its mirror pod is treated differently.
"""

from typing import Final

SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
"""Its source: file, http, api."""
SEEN_ANNOTATION: Final = "kubernetes.io/config.seen"
"""When it was read."""
HASH_ANNOTATION: Final = "kubernetes.io/config.hash"
"""For a static pod: the version of its manifest."""
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""For a mirror pod: the version of its static pod."""
