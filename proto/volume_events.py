"""What happens when a volume is expanded: for the events of its pod and of its claim."""

from dataclasses import dataclass

from proto.temporal.pod import PodKey


@dataclass(frozen=True, slots=True)
class ResizeEvent:
    """One occurrence."""

    pod: PodKey
    claim: tuple[str, str, str] | None
    """Namespace, name and uid; None: it is about the pod alone."""
    is_warning: bool
    reason: str
    message: str


def ignore_resize(_: ResizeEvent) -> None:
    """Ignore an occurrence."""
