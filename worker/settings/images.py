"""Image pulls and image garbage collection: the keys of KubeletConfiguration."""

from dataclasses import dataclass
from typing import Final

from activities.images.access.verification import Verification
from proto.temporal.node import ImagePolicy
from worker.settings.image_verification import verification
from worker.settings.kubelet.configuration import KubeletConfiguration
from worker.settings.kubelet.feature_gates import FeatureGates
from worker.settings.tempolet_configuration import TempoletConfiguration

SERIAL_PULLS: Final = "serializeImagePulls"
PARALLEL_PULLS: Final = "maxParallelImagePulls"
DEFAULT_PARALLEL_PULLS: Final = 4
"""If no file sets it; with the kubelet's default of one, a slow pull delays every pod (kubernetes#109956)."""


@dataclass(frozen=True, slots=True)
class ImagePulls:
    """How images are pulled."""

    parallel: int | None = DEFAULT_PARALLEL_PULLS
    """Maximum number of concurrent pulls; None: no limit."""
    qps: int = 5
    """Pulls a second; 0: no limit."""
    burst: int = 10
    verification: Verification | None = None
    """None: every pod may use an image that is present."""


def image_pulls(kubelet: KubeletConfiguration, gates: FeatureGates) -> ImagePulls:
    """Read the settings of pulls."""
    said = {SERIAL_PULLS, PARALLEL_PULLS} & kubelet.said
    if not said:
        parallel: int | None = DEFAULT_PARALLEL_PULLS
    elif kubelet["serializeImagePulls"]:
        parallel = 1
    else:
        parallel = kubelet["maxParallelImagePulls"]
    rate = (kubelet["registryPullQPS"], kubelet["registryBurst"])
    return ImagePulls(parallel, *rate, verification=verification(kubelet, gates))


def image_policy(kubelet: KubeletConfiguration, own: TempoletConfiguration) -> ImagePolicy:
    """Read the settings of garbage collection."""
    return ImagePolicy(
        kubelet["imageGCHighThresholdPercent"],
        kubelet["imageGCLowThresholdPercent"],
        kubelet["imageMinimumGCAge"],
        kubelet["imageMaximumGCAge"] or None,
        own.images.look_every,
    )
