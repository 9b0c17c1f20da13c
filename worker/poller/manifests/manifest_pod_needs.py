"""The next call that the pod of a manifest needs: the pure part of `manifest_pods`."""

from dataclasses import dataclass, field

from worker.poller.calls.open_workflows import OpenPod
from worker.poller.manifests.merged_listings import ManifestListings
from worker.poller.manifests.static_pod import SOURCE, URL_SOURCE, StaticPod
from workflows.decide.record.listing import lasting


@dataclass(frozen=True, slots=True)
class Start:
    """Signal a pod's workflow that the pod is listed; start the workflow if there is none."""

    pod: StaticPod


@dataclass(frozen=True, slots=True)
class Delete:
    """Request the deletion of a pod from its workflow."""

    workflow_id: str
    reason: str
    message: str


@dataclass(slots=True)
class PodName:
    """The desired and the known state of one pod name (namespace/name)."""

    desired: StaticPod | None = None
    listed: StaticPod | None = None
    """What its workflow was last signalled."""
    listed_at: float = 0.0
    open: dict[str, OpenPod] = field(default_factory=dict)
    """By UID: workflows that are open, or were a moment ago."""
    deletions_requested: set[str] = field(default_factory=set)
    first_requests: dict[str, Delete] = field(default_factory=dict)
    """By UID: how a deletion was first requested. It is requested anew in the same words, so that a history tells it once."""
    leads: int = 0
    """How often the lead of one of its pods has changed: what was called before counts for the former lead alone."""
    remade: str = ""
    """The UID of the listed pod, if its manifest was removed and made again: the pod is stopped, then started again."""
    made_anew: bool = False
    """It is started again because it ended when the machine went down, not because of its manifest."""

    def next_call(self, listings: ManifestListings) -> Start | Delete | None:
        """Return the next call: deletions first, then the listed pod.

        An edit under the same UID is a listing: the workflow decides what can be changed in place.
        """
        stays = self.desired.uid if self.desired else None
        if self.desired and self.remade == stays and (remade := self.open.get(self.remade)):
            if self.made_anew:
                return Delete(
                    remade.workflow_id, "NodeShutdownOver", "the machine is up again, and its manifest lists it"
                )
            return Delete(
                remade.workflow_id, "ManifestRemade", f"manifest {self.desired.path} was removed and made again"
            )
        for uid, pod in self.open.items():
            if uid != stays and uid not in self.deletions_requested and listings.is_unlisted(pod):
                return self.first_requests.get(uid) or Delete(pod.workflow_id, *_why(pod, self.desired, listings))
        if self.desired and not (self.listed and is_same(self.listed, self.desired)):
            return Start(self.desired)
        return None

    def tell_anew(self, uid: str) -> None:
        """Forget what was told of a pod."""
        self.leads += 1
        self.deletions_requested.discard(uid)
        if self.listed and self.listed.uid == uid:
            self.listed = None

    def edits(self, pod: StaticPod) -> bool:
        """Report whether this pod is an edit of the one that its workflow knows."""
        return self.listed is not None and self.listed.uid == pod.uid

    @property
    def settled(self) -> bool:
        """Neither listed nor open."""
        return self.desired is None and not self.open


def _why(old: OpenPod, new: StaticPod | None, listings: ManifestListings) -> tuple[str, str]:
    """Return reason and message for a pod's deletion."""
    if old.source == URL_SOURCE:
        return (
            ("ManifestReplaced", f"{old.path} gives another one")
            if new
            else ("ManifestRemoved", f"{old.path} no longer lists it")
        )
    manifest = f"manifest {old.path}" if old.path else "its manifest"
    if new and str(new.path) in {old.path, ""}:
        return "ManifestReplaced", f"{manifest} was changed"
    if new:
        return "ManifestReplaced", f"manifest {new.path} took the place of {manifest}"
    if now := next(
        (name for name, pod in listings.of(SOURCE).pods.items() if old.path and str(pod.path) == old.path), None
    ):
        return "ManifestReplaced", f"{manifest} now describes {now}"
    return "ManifestRemoved", f"{manifest} is no longer there"


def is_same(one: StaticPod, other: StaticPod) -> bool:
    """Report whether two readings gave the same pod."""
    if one is other:
        return True
    same = one.uid == other.uid and one.pending_resize == other.pending_resize
    return same and lasting(one.pod) == lasting(other.pod)
