"""What all sources of manifests list together: which pods there are, and which are certain to be gone.

Kept by `pods`. Each source is judged by itself: a URL that cannot be read holds up no pod that came from a file. A name that two
sources list belongs to the folder; the other one's pod runs when that is gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from worker.poller.calls.pod_workflows import OpenPod
from worker.poller.manifests.manifest_folder import Listing
from worker.poller.manifests.static_pod import SOURCE, StaticPod

NOTHING_LISTED = Listing()


@dataclass(frozen=True, slots=True)
class ManifestListings:
    """The newest listing of each source; one that is configured and has not listed yet cannot be read."""

    by_source: Mapping[str, Listing]
    pods: Mapping[str, StaticPod] = field(init=False)
    """By namespace/name."""

    def __post_init__(self) -> None:
        merged: dict[str, StaticPod] = {}
        for source in sorted(self.by_source, key=lambda one: one != SOURCE):
            for name, pod in self.by_source[source].pods.items():
                merged.setdefault(name, pod)
        object.__setattr__(self, "pods", merged)

    def of(self, source: str) -> Listing:
        """Give what a source lists; one that is not configured (any more) lists nothing."""
        return self.by_source.get(source, NOTHING_LISTED)

    @property
    def complete(self) -> bool:
        """Say whether every source could be read as a whole."""
        return all(one.readable and not one.undecided for one in self.by_source.values())

    def is_free(self, pod: OpenPod) -> bool:
        """Say whether it is certain that no manifest stands for this pod; of one whose source is not known all are asked."""
        asked = (self.of(pod.source),) if pod.source else self.by_source.values()
        return all(_is_free(pod, one) for one in asked)


def _is_free(pod: OpenPod, listing: Listing) -> bool:
    if not listing.readable or pod.path in listing.undecided:
        return False
    return bool(pod.path) or not listing.undecided
