"""`tempolet skip-backoff NAMESPACE/POD [CONTAINER]`: restart a crash-looping container or pull a missing image now.

An Update of the pod's workflow (`updates`). Failures still count: the next back-off is as long as it would have been.
"""

from proto.temporal import names
from proto.temporal.operator import BackoffsSkipped, SkipBackoff
from worker.commands.access.pod_selection import PodSelector
from worker.commands.change.updates import operator, update_pod
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable
from worker.history.sentences.story_state import seconds


def run(config: NodeConfig, selector: PodSelector, container: str) -> None:
    """Skip the back-off of one container or of all; raises CommandFailed if none is backed off."""
    asked = SkipBackoff(operator(), container)
    answer = update_pod(config, selector, asked, update=names.SKIP_BACKOFF, answer=BackoffsSkipped)
    for one in answer.skipped:
        print(printable(f"{one} starts now, {seconds(one.left)} early"))
    if not answer.skipped:
        print(f"{selector}: the back-off had already ended")
