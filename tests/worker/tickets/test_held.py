"""Whose activities may run, at each moment of a pod's life?"""

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.temporal.ticket import UNTICKETED, Ticket
from worker.tickets.held import Earlier, Held, Verdict

FIRST, SECOND, FOREIGN = Ticket("a" * 16), Ticket("b" * 16), Ticket("c" * 16)
RUN, OTHER_RUN = "run-1", "run-2"

ALIVE: Final = Held(FIRST)
RAISED: Final = ALIVE.raised()
OVER: Final = ALIVE.completed(FIRST, RUN)
LISTED_AGAIN: Final = OVER.drawn(SECOND.incarnation)
OF_BEFORE: Final = Held(FIRST, Earlier(UNTICKETED))
"""Held of a run that a release without tickets has started."""


@pytest.mark.parametrize(
    ("held", "shown", "run_id", "expected"),
    [
        pytest.param(ALIVE, FIRST, RUN, Verdict.PASSES, id="its-own"),
        pytest.param(ALIVE, FIRST, OTHER_RUN, Verdict.PASSES, id="its-own-after-continue-as-new-or-a-reset"),
        pytest.param(ALIVE, UNTICKETED, RUN, Verdict.REFUSED, id="none"),
        pytest.param(ALIVE, FOREIGN, RUN, Verdict.REFUSED, id="another-one"),
        pytest.param(ALIVE, Ticket(FIRST.incarnation, 1), RUN, Verdict.REFUSED, id="a-higher-epoch"),
        pytest.param(RAISED, FIRST, RUN, Verdict.PARKED, id="something-else-leads"),
        pytest.param(RAISED, Ticket(FIRST.incarnation, 1), RUN, Verdict.PASSES, id="the-run-leads-again"),
        pytest.param(RAISED, UNTICKETED, RUN, Verdict.REFUSED, id="none-while-something-else-leads"),
        pytest.param(OVER, FIRST, OTHER_RUN, Verdict.REFUSED, id="a-removed-pod-started-again"),
        pytest.param(OVER, UNTICKETED, OTHER_RUN, Verdict.REFUSED, id="a-removed-pod-none"),
        pytest.param(OVER, FIRST, RUN, Verdict.PASSES, id="the-run-whose-completion-temporal-has-refused"),
        pytest.param(LISTED_AGAIN, SECOND, OTHER_RUN, Verdict.PASSES, id="listed-again"),
        pytest.param(LISTED_AGAIN, FIRST, OTHER_RUN, Verdict.REFUSED, id="listed-again-the-old-start"),
        pytest.param(LISTED_AGAIN, FIRST, RUN, Verdict.PASSES, id="listed-again-before-the-run-could-complete"),
        pytest.param(
            LISTED_AGAIN.confirmed(SECOND), FIRST, RUN, Verdict.REFUSED, id="the-old-run-once-the-new-one-acts"
        ),
        pytest.param(OF_BEFORE, UNTICKETED, RUN, Verdict.PASSES, id="a-run-of-the-release-before"),
        pytest.param(OF_BEFORE, FIRST, RUN, Verdict.PASSES, id="its-next-run"),
        pytest.param(OF_BEFORE.confirmed(FIRST), UNTICKETED, RUN, Verdict.REFUSED, id="its-old-start-afterwards"),
        pytest.param(OF_BEFORE.confirmed(UNTICKETED), UNTICKETED, RUN, Verdict.PASSES, id="only-the-new-one-ends-it"),
        pytest.param(OF_BEFORE.completed(UNTICKETED, RUN), UNTICKETED, OTHER_RUN, Verdict.REFUSED, id="it-completed"),
        pytest.param(OF_BEFORE.completed(UNTICKETED, RUN), UNTICKETED, RUN, Verdict.PASSES, id="it-goes-on-after-all"),
        pytest.param(OF_BEFORE.raised(), UNTICKETED, RUN, Verdict.PARKED, id="something-leads-in-its-place"),
    ],
)
def test_who_may_act(held: Held, shown: Ticket, run_id: str, expected: Verdict) -> None:
    """One row for each moment."""
    assert held.verdict(shown, run_id) is expected


@pytest.mark.parametrize(
    ("held", "shown", "run_id", "expected"),
    [
        pytest.param(ALIVE, FIRST, RUN, False, id="its-own"),
        pytest.param(ALIVE, UNTICKETED, RUN, False, id="a-start-of-the-release-before-gets-none"),
        pytest.param(OVER, FIRST, RUN, True, id="the-run-that-goes-on-after-all"),
        pytest.param(OVER, FIRST, OTHER_RUN, False, id="a-removed-pod-started-again"),
        pytest.param(LISTED_AGAIN, FIRST, RUN, True, id="the-run-that-a-listing-has-reached"),
        pytest.param(OF_BEFORE, UNTICKETED, RUN, True, id="a-run-of-the-release-before"),
        pytest.param(OF_BEFORE, FIRST, RUN, False, id="its-next-run"),
    ],
)
def test_whose_next_run_takes_the_newer_ticket(held: Held, shown: Ticket, run_id: str, expected: bool) -> None:
    """Only a run that may act: else an old start could continue as new until it may."""
    assert held.is_earlier(shown, run_id) is expected


@pytest.mark.parametrize(
    ("held", "said", "expected"),
    [
        pytest.param(ALIVE, UNTICKETED, OF_BEFORE, id="an-older-release-has-run-meanwhile"),
        pytest.param(ALIVE, FIRST, ALIVE, id="what-is-held"),
        pytest.param(ALIVE, SECOND, ALIVE, id="a-ticket-of-an-earlier-life"),
        pytest.param(OVER, FIRST, OVER, id="the-last-snapshot-of-a-removed-pod"),
        pytest.param(OVER, UNTICKETED, OVER, id="the-same-without-a-ticket"),
        pytest.param(OF_BEFORE, UNTICKETED, OF_BEFORE, id="known-already"),
    ],
)
def test_what_a_snapshot_says(held: Held, said: Ticket, expected: Held) -> None:
    """It never brings back what is over."""
    assert held.known_as(said) == expected


CHANGES: Final[dict[str, Callable[[Held, Ticket], Held]]] = {
    "completed": lambda held, shown: held.completed(shown, RUN),
    "drawn": lambda held, _: held.drawn(SECOND.incarnation),
    "raised": lambda held, _: held.raised(),
    "confirmed": lambda held, shown: held.confirmed(shown),
    "known": lambda held, _: held.known_as(UNTICKETED),
}


@given(st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), st.sampled_from([FIRST, SECOND, UNTICKETED])), max_size=12))
def test_a_foreign_run_never_passes(changes: list[tuple[str, Ticket]]) -> None:
    """Whatever happens to the life, a ticket that was never drawn opens nothing, and a life that ended stays closed to others."""
    held, ended = ALIVE, False
    for name, shown in changes:
        ended = ended or (name == "completed" and shown == held.ticket == FIRST)
        held = CHANGES[name](held, shown)
        assert held.verdict(FOREIGN, RUN) is Verdict.REFUSED
        if ended:
            shown_again = [Ticket(FIRST.incarnation, epoch) for epoch in range(len(changes) + 1)]
            assert {held.verdict(one, OTHER_RUN) for one in shown_again} == {Verdict.REFUSED}
