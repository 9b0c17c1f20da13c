"""When a listing tells of another pod than the one before it, and when only of another reading.

Asked by `hints` and by the poller, which must not load the Kubernetes models for it: they cost a process 16 MB.
"""

from proto.kubernetes.source_annotations import SEEN_ANNOTATION
from proto.temporal.pod import PodJson


def lasting(pod: PodJson) -> PodJson:
    """Cut off what changes with each reading of a manifest and is no change of the pod."""
    metadata = pod["metadata"]
    annotations = {
        name: value for name, value in (metadata.get("annotations") or {}).items() if name != SEEN_ANNOTATION
    }
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


def without_ephemeral(pod: PodJson) -> PodJson:
    """Cut off what somebody looks into the pod with: a manifest knows nothing of it, and another life has none."""
    spec = {name: value for name, value in pod["spec"].items() if name != "ephemeralContainers"}
    return pod if len(spec) == len(pod["spec"]) else {**pod, "spec": spec}
