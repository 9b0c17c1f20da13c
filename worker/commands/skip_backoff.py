"""`tempolet skip-backoff NAMESPACE/POD [CONTAINER]`: restart a crash-looping container now, pull a missing image now.

An Update of the pod's workflow (`asking`). What the wait was earned by stays: the next back-off is as long as it would have
been.
"""

from proto.temporal import names
from proto.temporal.operator import BackoffsSkipped, SkipBackoff
from worker.commands.asking import ask_pod, operator
from worker.commands.told import seconds
from worker.commands.wanted import Wanted
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable


def run(config: NodeConfig, wanted: Wanted, container: str) -> None:
    """Skip the back-offs of one container or of all that wait; raises CommandFailed when none does."""
    asked = SkipBackoff(operator(), container)
    answer = ask_pod(config, wanted, asked, update=names.SKIP_BACKOFF, answer=BackoffsSkipped)
    for one in answer.skipped:
        print(printable(f"{one} begins now, {seconds(one.left)} before its time"))
    if not answer.skipped:
        print(f"{wanted}: the back-off was over already")
