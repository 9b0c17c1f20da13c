"""What all sources of manifests list together: which pods there are, and which are certain to be gone.

Each source counts for itself: a URL that cannot be read does not affect pods from files. If two sources list a name,
the folder's pod runs; the other one runs after that is gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from worker.poller.calls.open_workflows import OpenPod
from worker.poller.manifests.manifest_folder import Listing
from worker.poller.manifests.static_pod import SOURCE, StaticPod

NOTHING_LISTED = Listing()


@dataclass(frozen=True, slots=True)
class ManifestListings:
    """The newest listing of each source; a configured source that has not listed yet counts as unreadable."""

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
        """Return what a source lists; one that is not configured lists nothing."""
        return self.by_source.get(source, NOTHING_LISTED)

    @property
    def complete(self) -> bool:
        """Whether every source could be read completely."""
        return all(one.readable and not one.undecided for one in self.by_source.values())

    def is_unlisted(self, pod: OpenPod) -> bool:
        """Report whether certainly no manifest lists this pod; if its source is not known, all sources are checked."""
        asked = (self.of(pod.source),) if pod.source else self.by_source.values()
        return all(_is_unlisted(pod, one) for one in asked)


def _is_unlisted(pod: OpenPod, listing: Listing) -> bool:
    if not listing.readable or pod.path in listing.undecided:
        return False
    return bool(pod.path) or not listing.undecided
