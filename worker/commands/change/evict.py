"""`tempolet evict NAMESPACE/POD`: end a pod as a node under pressure would.

An Update of the pod's workflow (`updates`). The pod fails and is not started again until its manifest is removed or
changed.
"""

from proto.temporal import names
from proto.temporal.operator import EvictPod, PodEvicted
from worker.commands.access.pod_selection import PodSelector
from worker.commands.change.updates import update_pod
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable
from worker.history.sentences.story_state import seconds


def run(config: NodeConfig, selector: PodSelector, asked: EvictPod) -> None:
    """Evict a pod; raises CommandFailed for a system pod and for one that has ended."""
    answer = update_pod(config, selector, asked, update=names.EVICT_POD, answer=PodEvicted)
    at = f"{answer.kills_at.astimezone():%H:%M:%S}"
    print(
        printable(
            f"{selector} is evicted ({answer.reason}): grace {seconds(answer.grace)}, SIGKILL at {at} at the latest"
        )
    )
