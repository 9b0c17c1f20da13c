"""Removes what the runtime and the disk still hold of orphaned pods.

Called after each minute's listing. A pod is orphaned if its sandboxes carry this node's annotation, its workflow is not
open, and no manifest lists it: an operator terminated the workflow, or Temporal's database was lost. It is removed
after two listings have found it so, a minute apart, and the workflow's own record confirms it, because a pod that is
just starting or ending looks the same for a moment. A pod that a manifest lists is adopted instead: its workflow is
started and finds the containers by their labels.

A removal may last, because containers have their grace. So whether the pod is still orphaned is asked again before each
step, under the lock that the start of its workflow takes: a manifest that comes back keeps its sandbox and its volumes.
Only the stop of containers is without the lock, which would delay the start by their grace.

The pod's folders, logs and cgroup are removed with it; otherwise its snapshot would block a successor of its name for
ever. Cgroup and volumes are the worker's to undo (`activities/pods/orphan_mark.py`); then the next try goes on. A pod of which only those are left is removed in the same way. (The kubelet's container_gc removes such log
folders by their names alone; here podLogsDir may belong to another node as well, so the snapshot must show that the pod
was ours.)
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Final

import structlog
from temporalio.exceptions import ApplicationError

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from activities.files.file_trees import StillMounted, remove_tree
from activities.files.pod_paths import PodPaths
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.pods.orphan_mark import mark
from activities.volumes.orphaned_volumes import held_volumes
from proto.cri.labels import POD_GRACE
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.resources.qos import QosClass
from proto.temporal.names import PodWorkflowId
from proto.temporal.pod import PodKey
from worker.daemon.config import NodeConfig
from worker.machine.cgroup_driver import recorded_names
from worker.poller.calls.pod_workflows import PodWorkflows
from worker.poller.calls.temporal_calls import CallRefused, TemporalUnavailable
from worker.poller.runtime.relist import RuntimePod

DEFAULT_GRACE: Final = 30
"""Kubernetes' default, in seconds."""

_log: Final = structlog.get_logger(__name__)


class WantedAgainError(Exception):
    """A pod that is being removed is listed again, or has a workflow."""


class LeftToWorkerError(Exception):
    """A pod still has what the worker has to undo; its folder is marked."""


class OrphanedPods:
    """Remembers the pods that one listing has found orphaned."""

    def __init__(
        self,
        client: RuntimeClient,
        workflows: PodWorkflows,
        remains: Callable[[PodKey], None],
        is_wanted: Callable[[str], bool],
        *,
        count: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the runtime and Temporal, what removes a pod's files (in a thread), and what knows if it is listed.

        `count` is called for each that is found.
        """
        self._client = client
        self._workflows = workflows
        self._remove_remains = remains
        self._is_wanted, self._count = is_wanted, count
        self._seen: frozenset[str] = frozenset()
        self._removals: dict[str, asyncio.Task[None]] = {}

    async def look(self, pods: Iterable[RuntimePod], open_uids: Collection[str], wanted: Collection[str]) -> None:
        """Take what exists, which workflows are open and what manifests (may) list; start removals."""
        left = {pod.uid: pod for pod in pods if pod.uid not in open_uids and pod.uid not in wanted}
        for uid in sorted(left.keys() & self._seen - self._removals.keys()):
            pod = left[uid]
            try:
                if await self._workflows.is_open(pod.workflow_id):
                    continue
            except TemporalUnavailable:
                return
            except CallRefused as error:
                _log.warning("cannot find out whether a pod is orphaned", workflow=pod.workflow_id, err=str(error))
                continue
            removal = asyncio.create_task(self._remove(pod), name=f"remove {pod.workflow_id}")
            self._removals[uid] = removal
        for uid in sorted(left.keys() - self._seen):
            self._count()
            _log.info("found an orphaned pod", workflow=left[uid].workflow_id, podUID=uid)
        self._seen = frozenset(left)

    async def close(self) -> None:
        """Stop removing; what is left is found again."""
        for removal in self._removals.values():
            removal.cancel()
        await asyncio.gather(*self._removals.values(), return_exceptions=True)

    async def _remove(self, pod: RuntimePod) -> None:
        try:
            async with self._still_orphaned(pod):
                pass  # asked only: a start must not wait for the containers' grace
            async with asyncio.TaskGroup() as stops:
                for container in pod.containers:
                    if container.state == cri.CONTAINER_RUNNING:
                        stops.create_task(self._stop(container))
            for sandbox in pod.sandboxes:
                async with self._still_orphaned(pod):
                    await self._client.stop_pod_sandbox(sandbox.id)
            found = PodWorkflowId.parse(pod.workflow_id)
            async with self._still_orphaned(pod):
                await asyncio.to_thread(self._remove_remains, PodKey(found.namespace, found.name, found.uid))
            for sandbox in pod.sandboxes:  # last: by the sandboxes the pod is found again if a removal fails
                async with self._still_orphaned(pod):
                    await self._client.remove_pod_sandbox(sandbox.id)
        except WantedAgainError:
            _log.info("an orphaned pod is wanted again: its removal ends here", workflow=pod.workflow_id)
        except LeftToWorkerError as left:
            _log.info("an orphaned pod is left to the worker first", workflow=pod.workflow_id, has=str(left))
        except (TemporalUnavailable, CriError, ExceptionGroup, OSError, StillMounted, ApplicationError) as error:
            _log.warning("could not remove an orphaned pod", workflow=pod.workflow_id, err=str(error))
        except Exception:  # noqa: BLE001 - found and tried again at the next listing; other pods must not be affected
            _log.exception("could not remove an orphaned pod, for an unexpected reason", workflow=pod.workflow_id)
        else:
            _log.info(
                "removed an orphaned pod: it has no open workflow and no manifest lists it",
                workflow=pod.workflow_id,
                podUID=pod.uid,
                sandboxes=len(pod.sandboxes),
                containers=len(pod.containers),
            )
        finally:
            self._removals.pop(pod.uid, None)

    @asynccontextmanager
    async def _still_orphaned(self, pod: RuntimePod) -> AsyncIterator[None]:
        """Keep the pod's workflow from being started during a step. Raises WantedAgainError if it is not orphaned."""
        async with self._workflows.starts.hold(pod.workflow_id):
            if self._is_wanted(pod.uid) or await self._workflows.is_open(pod.workflow_id):
                raise WantedAgainError
            yield

    async def _stop(self, container: cri.Container) -> None:
        grace = container.annotations.get(POD_GRACE, "")
        await self._client.stop_container(container.id, int(grace) if grace.isdecimal() else DEFAULT_GRACE)


def remover(config: NodeConfig) -> Callable[[PodKey], None]:
    """Return the function that removes the files of a pod, or leaves it to the worker first.

    It raises LeftToWorkerError, OSError and StillMounted.
    """

    def remove(pod: PodKey) -> None:
        paths = PodPaths(config.root_dir, config.pod_logs_dir, pod)
        if held := [*_cgroup(config, pod.uid), *held_volumes(paths.directory)]:
            mark(paths.directory)
            raise LeftToWorkerError(", ".join(held))
        remove_tree(paths.logs)
        remove_tree(paths.directory)

    return remove


def _cgroup(config: NodeConfig, uid: str) -> list[str]:
    """Name the pod's cgroup, if there is one in any tier and hierarchy."""
    names, hierarchies = recorded_names(config.state_dir, config.cgroup_root), Hierarchies.of_this_node()
    try:
        cgroups = [names.pod(uid, qos) for qos in QosClass]
    except ValueError:  # no name for one, so it has none
        return []
    return ["its cgroup"] if any(one.is_dir() for cgroup in cgroups for one in hierarchies.folders(cgroup)) else []
