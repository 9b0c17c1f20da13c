"""What happens to volumes beside a pod's activities (expanded, published again): for the events of the pod and its claim."""

from dataclasses import dataclass

from proto.temporal.pod import PodKey


@dataclass(frozen=True, slots=True)
class VolumeEvent:
    """One occurrence."""

    pod: PodKey
    claim: tuple[str, str, str] | None
    """Namespace, name and uid; None: it is about the pod alone."""
    is_warning: bool
    reason: str
    message: str


def ignore_volume(_: VolumeEvent) -> None:
    """Ignore an occurrence."""
