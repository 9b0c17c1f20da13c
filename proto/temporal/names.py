"""The names in histories, operators' commands and dashboards, as explicit strings.

They are never renamed, because recorded histories are found, replayed and signalled by them.
"""

from dataclasses import dataclass
from typing import Final

NAMESPACE: Final = "tempolet"
RETENTION_DAYS: Final = 30

POD_WORKFLOW: Final = "PodWorkflow"
NODE_WORKFLOW: Final = "NodeWorkflow"

SHAPE: Final = "shape"
"""The key in a payload's encrypted metadata that names the dataclass of its value."""
ACTIVITY: Final = "activity"
"""The same for the id of the activity that it belongs to: its request, its answer, its failure, its heartbeats."""

# signals (past tense: something was seen)
POD_LISTED: Final = "PodListed"
DELETION_REQUESTED: Final = "DeletionRequested"
RUNTIME_CHANGED: Final = "RuntimeChanged"
PROBE_VERDICT: Final = "ProbeVerdict"
OBJECTS_CHANGED: Final = "ObjectsChanged"
STORAGE_EXCEEDED: Final = "StorageExceeded"
STATUS_GIVEN: Final = "StatusGiven"
NODE_CONFIGURED: Final = "NodeConfigured"
PRESSURE_JUDGED: Final = "PressureJudged"
BEHAVIOUR_COMMITTED: Final = "BehaviourCommitted"
WHILE_AWAY: Final = "WhileAway"
HANDED_BACK: Final = "HandedBack"

# queries
POD_STATUS: Final = "PodStatus"
EXPLAIN: Final = "Explain"
WHY_NOT: Final = "WhyNot"
"""Why an Update would be rejected."""
NODE_STATUS: Final = "NodeStatus"

# updates (imperative: an operator wants it, and is answered)
SKIP_BACKOFF: Final = "SkipBackoff"
SET_CONDITION: Final = "SetCondition"
STOP_POD: Final = "StopPod"
ADD_EPHEMERAL_CONTAINER: Final = "AddEphemeralContainer"
EVICT_POD: Final = "EvictPod"
ADMIT: Final = "Admit"
"""To the node's workflow, by its poller."""

# activities (imperative, the CRI's verbs where it has them)
MAKE_POD_DIRECTORIES: Final = "MakePodDirectories"
REMOVE_POD_DIRECTORIES: Final = "RemovePodDirectories"
DELETE_POD_OBJECT: Final = "DeletePodObject"
AWAIT_PREDECESSOR: Final = "AwaitPredecessor"
RUN_POD_SANDBOX: Final = "RunPodSandbox"
STOP_POD_SANDBOX: Final = "StopPodSandbox"
REMOVE_POD_SANDBOX: Final = "RemovePodSandbox"
MOUNT_VOLUMES: Final = "MountVolumes"
UNMOUNT_VOLUMES: Final = "UnmountVolumes"
PREPARE_RESOURCES: Final = "PrepareResources"
UNPREPARE_RESOURCES: Final = "UnprepareResources"
READ_IMAGES: Final = "ReadImages"
PULL_IMAGE: Final = "PullImage"
START_CONTAINER: Final = "StartContainer"
RUN_HOOK: Final = "RunHook"
STOP_CONTAINER: Final = "StopContainer"
SHORTEN_STOP: Final = "ShortenStop"
PROBE_CONTAINER: Final = "ProbeContainer"
REMOVE_CONTAINER: Final = "RemoveContainer"
READ_POD_RUNTIME: Final = "ReadPodRuntime"
UPDATE_POD_SANDBOX_RESOURCES: Final = "UpdatePodSandboxResources"
UPDATE_CONTAINER_RESOURCES: Final = "UpdateContainerResources"
WATCH_IMAGES: Final = "WatchImages"
REMOVE_IMAGE: Final = "RemoveImage"
PREPULL_IMAGE: Final = "PrepullImage"
ALLOCATE_HARDWARE: Final = "AllocateHardware"

API_SOURCE: Final = "api"
"""The source of pods from an API server; other pods come from manifests."""

# search attributes: (name, kind)
SEARCH_ATTRIBUTES: Final[tuple[tuple[str, str], ...]] = (
    ("PodNamespace", "Keyword"),
    ("PodName", "Keyword"),
    ("PodUID", "Keyword"),
    ("PodNode", "Keyword"),
    ("PodPhase", "Keyword"),
    ("PodReady", "Keyword"),
    ("PodReason", "Keyword"),
    ("PodRestarts", "Int"),
)


def node_task_queue(node: str) -> str:
    """Return the name of a node's task queue."""
    return f"node/{node}"


def node_workflow_id(node: str) -> str:
    """Return the id of the workflow of the node itself."""
    return f"node/{node}"


@dataclass(frozen=True, slots=True)
class PodWorkflowId:
    """The id of a pod's workflow."""

    node: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"pod/{self.node}/{self.namespace}/{self.name}/{self.uid}"

    @classmethod
    def parse(cls, workflow_id: str) -> "PodWorkflowId":
        """Parse an id; raises ValueError for an id of another form."""
        match workflow_id.split("/"):
            case ["pod", node, namespace, name, uid]:
                return cls(node, namespace, name, uid)
            case _:
                raise ValueError(f"{workflow_id!r} is no pod workflow: pod/<node>/<namespace>/<name>/<uid> is")
