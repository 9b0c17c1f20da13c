"""What is said at a shutdown, in the kubelet's words (pkg/kubelet/nodeshutdown/nodeshutdown_manager.go, events/event.go)."""

from typing import Final

from proto.temporal.pod_inputs import Rejected

REASON: Final = "Terminated"
MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."
"""In status.message and in the condition DisruptionTarget."""
NOT_ADMITTED: Final = Rejected("NodeShutdown", "Pod was rejected as the node is shutting down.")
NOT_READY: Final = "node is shutting down"
"""In the node's condition Ready, joined with what else is wrong with it."""
EVENT: Final = "Shutdown"
DETECTED: Final = "Shutdown manager detected shutdown event"
CANCELLED: Final = "Shutdown manager detected shutdown cancellation"
