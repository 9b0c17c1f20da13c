"""`tempolet condition NAMESPACE/POD TYPE=STATUS`: say a condition that others judge, for example a readiness gate's.

An Update of the pod's workflow (`asking`). What is so already is no failure: who says it again and again may.
"""

from proto.temporal import names
from proto.temporal.operator import ConditionSet, SetCondition
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.pod_selection import PodSelector
from worker.commands.change.updates import Refused, ask_pod
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable


def parse(text: str) -> tuple[str, str]:
    """Read TYPE=STATUS; raises CommandFailed."""
    name, equals, status = text.rpartition("=")
    if not equals or not name or not status:
        raise CommandFailed(f"{text!r}: write TYPE=True, TYPE=False or TYPE=Unknown", Exit.USAGE)
    return name, status


def run(config: NodeConfig, selector: PodSelector, asked: SetCondition) -> None:
    """Set a condition; raises CommandFailed when it may not be set."""
    try:
        answer = ask_pod(config, selector, asked, update=names.SET_CONDITION, answer=ConditionSet)
    except Refused as refused:
        if refused.reason != "Unchanged":
            raise
        print(printable(str(refused)))
        return
    before = f"it was {answer.before}" if answer.before else "it had none"
    print(printable(f"condition {answer.type} of {selector} is {answer.status}, {before}"))
