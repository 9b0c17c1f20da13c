"""`tempolet evict NAMESPACE/POD`: end a pod for the node's sake, as a node under pressure would.

An Update of the pod's workflow (`asking`). The pod has failed and is not started again until its manifest goes or changes.
"""

from proto.temporal import names
from proto.temporal.operator import EvictPod, PodEvicted
from worker.commands.asking import ask_pod
from worker.commands.told import seconds
from worker.commands.wanted import Wanted
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable


def run(config: NodeConfig, wanted: Wanted, asked: EvictPod) -> None:
    """Evict a pod; raises CommandFailed for one of the system, and where nothing is left to end."""
    answer = ask_pod(config, wanted, asked, update=names.EVICT_POD, answer=PodEvicted)
    at = f"{answer.kills_at.astimezone():%H:%M:%S}"
    print(
        printable(
            f"{wanted} is evicted ({answer.reason}): grace {seconds(answer.grace)}, SIGKILL at {at} at the latest"
        )
    )
