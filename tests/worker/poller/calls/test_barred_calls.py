"""Does the poller call Temporal for nothing while another machine has this node's name?"""

import pytest

from worker.delivery.lead import NameTaken
from worker.poller.calls.temporal_calls import TemporalCalls, TemporalUnavailable


async def test_no_call_is_made_while_another_machine_has_the_name() -> None:
    """Also no list: what is not listed here would be deleted there. It counts as a Temporal that does not answer."""
    taken, made = [True], 0

    async def require_name() -> None:
        if taken[0]:
            raise NameTaken("another machine has it")

    calls = TemporalCalls(require_name)
    with pytest.raises(TemporalUnavailable, match="another machine has it"):
        async with calls.call("list the open workflows"):
            made += 1
    taken[0] = False
    async with calls.call("list the open workflows"):
        made += 1
    assert made == 1
