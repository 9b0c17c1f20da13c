"""`tempolet condition NAMESPACE/POD TYPE=STATUS`: set a condition that others decide, for example a readiness gate's.

An Update of the pod's workflow (`updates`). Setting a condition to the status that it has already is not an error.
"""

from proto.temporal import names
from proto.temporal.operator import ConditionSet, SetCondition
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.pod_selection import PodSelector
from worker.commands.change.updates import Refused, update_pod
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable


def parse(text: str) -> tuple[str, str]:
    """Parse TYPE=STATUS; raises CommandFailed."""
    name, equals, status = text.rpartition("=")
    if not equals or not name or not status:
        raise CommandFailed(f"{text!r}: write TYPE=True, TYPE=False or TYPE=Unknown", Exit.USAGE)
    return name, status


def run(config: NodeConfig, selector: PodSelector, asked: SetCondition) -> None:
    """Set a condition; raises CommandFailed if it may not be set."""
    try:
        answer = update_pod(config, selector, asked, update=names.SET_CONDITION, answer=ConditionSet)
    except Refused as refused:
        if refused.reason != "Unchanged":
            raise
        print(printable(str(refused)))
        return
    before = f"it was {answer.before}" if answer.before else "it had none"
    print(printable(f"condition {answer.type} of {selector} is {answer.status}, {before}"))
