"""The actions of a node's workflow, one row for each type."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from proto.temporal import names
from proto.temporal.activities.requests import PulledImage
from proto.temporal.hardware.ledger import AllocateHardware, PodAssignment
from proto.temporal.node import ImageUse, PrepullImage, RemovedImage, RemoveImage, WatchImages
from proto.temporal.pod import PodJson
from workflows.decide.action_type import PROBING, ActionType

NodeAction = WatchImages | RemoveImage | PrepullImage | AllocateHardware

WATCH: Final = "images"
"""The prefix of the key of watching; the number of the policy follows."""
PREPULL: Final = "prepull"
"""The prefix of the key of prepulling an image."""
HARDWARE: Final = "hardware"
"""The prefix of the key of choosing hardware; the uid of the pod follows."""

NODE_ACTIONS: Final[Mapping[type, ActionType]] = {
    WatchImages: ActionType(
        names.WATCH_IMAGES,
        key=lambda asked: f"{WATCH}/{asked.policies}",
        summary=lambda asked: f"watch the images' disk: room is made from {asked.policy.high_threshold_percent} % on",
        within=timedelta(days=365),
        result=ImageUse,
        heartbeat=None,  # as for probes
        retry=PROBING,
        endless=True,
    ),
    RemoveImage: ActionType(
        names.REMOVE_IMAGE,
        key=lambda asked: f"remove/{asked.image_id}",
        summary=lambda asked: f"remove {asked.name}: {asked.reason}",
        within=timedelta(minutes=5),
        result=RemovedImage,
    ),
    PrepullImage: ActionType(
        names.PREPULL_IMAGE,
        key=lambda asked: f"{PREPULL}/{asked.image}",
        summary=lambda asked: f"prepull {asked.image}",
        within=timedelta(hours=24),
        result=PulledImage,
    ),
    AllocateHardware: ActionType(
        names.ALLOCATE_HARDWARE,
        key=lambda asked: f"{HARDWARE}/{asked.pod['metadata']['uid']}",
        summary=lambda asked: f"choose hardware for {pod_name(asked.pod)}",
        within=timedelta(minutes=5),  # plugins may take long
        result=PodAssignment,
    ),
}
"""One row for each type of action."""


def pod_name(pod: PodJson) -> str:
    """Return a pod's namespace and name."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def node_key(action: NodeAction) -> str:
    """Return an action's key, which is also its activity's id."""
    return NODE_ACTIONS[type(action)].key(action)
