"""The types of activities' failures that more than one layer uses: histories contain them.

The first ones are not reasons of Kubernetes.
"""

from typing import Final

RUNTIME_UNAVAILABLE: Final = "RuntimeUnavailable"
API_SERVER_AWAY: Final = "APIServerAway"
PREDECESSOR_PRESENT: Final = "PredecessorPresent"
NETWORK_NOT_READY: Final = "NetworkNotReady"
INVALID_POD_NAME: Final = "InvalidPodName"
STEP_TIMED_OUT: Final = "StepTimedOut"
"""An activity gave no answer within its limit (`activities/execution/attempts.py`); its work may go on."""
CONTAINER_ENDED: Final = "ContainerEnded"
"""A container that is to be probed has ended, which its workflow does not know yet."""
TICKET_REFUSED: Final = "TicketRefused"
"""This node has not asked for the activity (`worker/tickets/gate.py`); nothing was done."""
UNEXPECTED: Final = "UnexpectedError"
"""A bug in tempolet (`activities/execution/unexpected.py`)."""

FAILED_MOUNT: Final = "FailedMount"
VOLUME_ATTACHMENT_LIMIT_EXCEEDED: Final = "VolumeAttachmentLimitExceeded"
"""The node has no place for a volume: its pod is rejected."""
FAILED_PREPARE_DYNAMIC_RESOURCES: Final = "FailedPrepareDynamicResources"
FAILED_UNPREPARE_DYNAMIC_RESOURCES: Final = "FailedUnprepareDynamicResources"
"""Not a reason of the kubelet, which only logs it."""
FAILED_UNMOUNT: Final = "FailedUnmount"
CONFIG_ERROR: Final = "CreateContainerConfigError"
