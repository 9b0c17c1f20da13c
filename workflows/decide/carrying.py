"""Which actions under way a run passes on when it continues as new.

The next run begins them with the same requests, so the process attaches them to the work that runs
(`activities/execution/`): a hook of hours, a stop with its grace and a pull go on. Reads are decided anew, and so are
probes, which attach by their container.
"""

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from proto.temporal.pod_inputs import CarriedAction
from workflows.decide.actions import ACTIONS, Action, is_endless

LONGEST: Final = 512 * 1024
"""Characters of all requests: Temporal ends a run whose next input is above 2 MB. Pod and `Observed` need room, too."""
_KINDS: Final = {row.name: kind for kind, row in ACTIONS.items()}


def carried(under_way: Iterable[Action]) -> tuple[CarriedAction, ...] | None:
    """Return what the next run begins with; None if that is too much, so that some of it must end first."""
    passed_on = [one for one in under_way if is_passed_on(one)]
    fitting = what_fits(passed_on)
    return fitting if len(fitting) == len(passed_on) else None


def what_fits(under_way: Iterable[Action]) -> tuple[CarriedAction, ...]:
    """Return the same as far as it fits, the oldest first."""
    passed_on = [one for one in under_way if is_passed_on(one)]
    lengths = accumulate(len(repr(one)) for one in passed_on)
    return tuple(
        CarriedAction(ACTIONS[type(one)].name, one)
        for one, length in zip(passed_on, lengths, strict=True)
        if length <= LONGEST
    )


def is_passed_on(action: Action) -> bool:
    """Report whether the next run goes on with an action: not if it only reads, since another read serves as well."""
    return not is_endless(action) and ACTIONS[type(action)].at_once is None


def kind_of(action: CarriedAction) -> type:
    """Return the type of the request of a carried action."""
    return _KINDS[action.name]
