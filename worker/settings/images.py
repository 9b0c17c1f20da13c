"""How images are pulled, and when they are removed again: the keys of KubeletConfiguration that `config` asks for."""

from dataclasses import dataclass
from typing import Final

from activities.images.access.verification import Verification
from proto.temporal.node import ImagePolicy
from worker.settings.image_verification import verification
from worker.settings.kubelet.configuration import KubeletConfiguration
from worker.settings.kubelet.feature_gates import FeatureGates
from worker.settings.tempolet_configuration import TempoletConfiguration

DEFAULT_PARALLEL_PULLS: Final = 4
"""When no file says a word on it; the kubelet's one at a time lets a slow pull hold up every pod (kubernetes#109956)."""


@dataclass(frozen=True, slots=True)
class ImagePulls:
    """How images are pulled."""

    parallel: int | None = DEFAULT_PARALLEL_PULLS
    """At most so many at a time; None: no limit."""
    qps: int = 5
    """Pulls a second; 0: no limit."""
    burst: int = 10
    verification: Verification | None = None
    """None: an image that is there is everybody's."""


def image_pulls(kubelet: KubeletConfiguration, gates: FeatureGates) -> ImagePulls:
    """Read how they are pulled."""
    said = {"serializeImagePulls", "maxParallelImagePulls"} & kubelet.said
    if not said:
        parallel: int | None = DEFAULT_PARALLEL_PULLS
    elif kubelet["serializeImagePulls"]:
        parallel = 1
    else:
        parallel = kubelet["maxParallelImagePulls"]
    rate = (kubelet["registryPullQPS"], kubelet["registryBurst"])
    return ImagePulls(parallel, *rate, verification=verification(kubelet, gates))


def image_policy(kubelet: KubeletConfiguration, own: TempoletConfiguration) -> ImagePolicy:
    """Read when they are removed."""
    return ImagePolicy(
        kubelet["imageGCHighThresholdPercent"],
        kubelet["imageGCLowThresholdPercent"],
        kubelet["imageMinimumGCAge"],
        kubelet["imageMaximumGCAge"] or None,
        own.images.look_every,
    )
