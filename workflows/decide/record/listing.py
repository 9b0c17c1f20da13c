"""Compares two listings of a pod without what every reading of a manifest changes.

Also used by the poller, which must not load the Kubernetes models: they cost a process 16 MB.
"""

from proto.kubernetes.source_annotations import SEEN_ANNOTATION
from proto.temporal.pod import PodJson


def lasting(pod: PodJson) -> PodJson:
    """Drop the annotation that each reading of a manifest changes."""
    metadata = pod["metadata"]
    annotations = {
        name: value for name, value in (metadata.get("annotations") or {}).items() if name != SEEN_ANNOTATION
    }
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


def without_ephemeral(pod: PodJson) -> PodJson:
    """Drop the ephemeral containers: a manifest has none, and the pod starts again without them."""
    spec = {name: value for name, value in pod["spec"].items() if name != "ephemeralContainers"}
    return pod if len(spec) == len(pod["spec"]) else {**pod, "spec": spec}
