"""Where does a message go next, and who is told everything anew?"""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.delivery.lead import Leads, PodLead
from worker.delivery.side import NOTHING_SEEN, Seen, Side, Step, Temporal, Worker, changed, next_step

T, W = Side.TEMPORAL, Side.WORKER
CALL, AWAIT, ASK, DONE, FAIL = Step.CALL_TEMPORAL, Step.AWAIT_TEMPORAL, Step.ASK_WORKER, Step.DONE, Step.FAIL
NOT_CALLED, PENDING, SLOW, ANSWERED, AWAY = Temporal
NOT_ASKED, TAKEN, NOT_TAKEN, SILENT = Worker

TABLE = {
    # Temporal leads                 not asked   taken      not taken   silent
    (T, NOT_CALLED): ((CALL, T), (DONE, W), (CALL, T), (CALL, T)),
    (T, PENDING): ((AWAIT, T), (DONE, W), (AWAIT, T), (AWAIT, T)),
    (T, SLOW): ((ASK, T), (DONE, W), (AWAIT, T), (AWAIT, T)),
    (T, AWAY): ((ASK, T), (DONE, W), (FAIL, T), (FAIL, T)),
    (T, ANSWERED): ((DONE, T), (DONE, T), (DONE, T), (DONE, T)),
    # the worker leads
    (W, NOT_CALLED): ((ASK, W), (DONE, W), (CALL, T), (FAIL, W)),
    (W, PENDING): ((ASK, W), (DONE, W), (AWAIT, T), (FAIL, W)),
    (W, SLOW): ((ASK, W), (DONE, W), (AWAIT, T), (FAIL, W)),
    (W, AWAY): ((ASK, W), (DONE, W), (FAIL, T), (FAIL, W)),
    (W, ANSWERED): ((DONE, W), (DONE, W), (DONE, W), (DONE, W)),
}


@pytest.mark.parametrize(
    ("side", "temporal", "worker", "then"),
    [
        pytest.param(side, temporal, worker, then, id=f"{side}-leads-{temporal}-{worker}".replace(" ", "-"))
        for (side, temporal), row in TABLE.items()
        for worker, then in zip(Worker, row, strict=True)
    ],
)
def test_next_step(side: Side, temporal: Temporal, worker: Worker, then: tuple[Step, Side]) -> None:
    """Every state has one."""
    assert next_step(side, temporal, worker) == then


def test_the_table_is_complete() -> None:
    """No state was left out."""
    assert set(TABLE) == set(product(Side, Temporal))


@given(st.data())
def test_every_message_comes_to_an_end(data: st.DataObject) -> None:
    """Whatever the two answer, a message asks each of them at most twice, and ends."""
    side, temporal, worker = data.draw(st.sampled_from(Side)), NOT_CALLED, NOT_ASKED
    steps = []
    while True:
        step, side = next_step(side, temporal, worker)
        steps.append(step)
        assert len(steps) <= 6, steps
        match step:
            case Step.CALL_TEMPORAL:
                temporal = PENDING
            case Step.AWAIT_TEMPORAL:
                temporal = data.draw(st.sampled_from([ANSWERED, AWAY] if temporal is SLOW else [SLOW, ANSWERED, AWAY]))
            case Step.ASK_WORKER:
                worker = data.draw(st.sampled_from([TAKEN, NOT_TAKEN, SILENT]))
            case _:
                break
    assert steps.count(Step.CALL_TEMPORAL) <= 1
    assert steps.count(Step.ASK_WORKER) <= 1
    assert (step is Step.DONE) == (temporal is ANSWERED or worker is TAKEN), "nothing is lost, and nothing told as lost"


@pytest.mark.parametrize(
    ("before", "now", "anew"),
    [
        pytest.param(NOTHING_SEEN, {}, set(), id="at-first-temporal-leads-all"),
        pytest.param(NOTHING_SEEN, {"a": PodLead(True, 3)}, {"a"}, id="at-first-one-is-led-here"),
        pytest.param(NOTHING_SEEN, {"a": PodLead(False, 3)}, set(), id="at-first-one-was-led-here-once"),
        pytest.param(Seen({}), {"a": PodLead(True, 1)}, {"a"}, id="taken"),
        pytest.param(Seen({"a": PodLead(True, 1)}), {"a": PodLead(False, 2)}, {"a"}, id="handed-back"),
        pytest.param(
            Seen({"a": PodLead(False, 2)}), {"a": PodLead(False, 4)}, {"a"}, id="taken-and-handed-back-unseen"
        ),
        pytest.param(Seen({"a": PodLead(True, 1)}), {"a": PodLead(True, 3)}, {"a"}, id="handed-back-and-taken-unseen"),
        pytest.param(Seen({"a": PodLead(True, 1)}), {"a": PodLead(True, 1)}, set(), id="as-before"),
        pytest.param(Seen({"a": PodLead(True, 1)}), {}, {"a"}, id="led-here-and-gone"),
        pytest.param(Seen({"a": PodLead(False, 2)}), {}, set(), id="handed-back-long-ago-and-gone"),
    ],
)
def test_who_is_told_anew(before: Seen, now: dict[str, PodLead], anew: set[str]) -> None:
    """Each pod whose lead has changed, even if it was not seen."""
    assert changed(before, Leads("v", now)) == anew
