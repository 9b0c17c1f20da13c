"""Which conditions may an operator set, and with which effect?"""

import pytest

from proto.temporal.operator import SetCondition
from proto.temporal.pod_inputs import GivenCondition
from tests.workflows.decide.pods import NAME_PART_RULE
from tests.workflows.decide.situations import Context, at, situation, up
from workflows.decide.record.signals import apply_signal
from workflows.decide.status.gates import OUR_OWN, why_not

LB = "example.com/lb"
GIVEN = {LB: GivenCondition("True", at(-60), "Attached", "")}


def asked(name: str = LB, status: str = "True", reason: str = "", message: str = "") -> SetCondition:
    """Build a request to set a condition."""
    return SetCondition("root@node-1", name, status, reason, message)


@pytest.mark.parametrize(
    ("wish", "reason", "message"),
    [
        pytest.param(asked(), "", "", id="as-it-was-but-for-another-reason"),
        pytest.param(asked(status="False"), "", "", id="another-status"),
        pytest.param(asked("gate1", "Unknown"), "", "", id="a-type-without-a-domain"),
        pytest.param(
            asked(reason="Attached"), "Unchanged", f"condition {LB} of default/web is True already", id="no-change"
        ),
        *(
            pytest.param(asked(name), "NotYours", f"condition {name} is the node's own", id=f"the-node-s-own-{name}")
            for name in OUR_OWN
        ),
        pytest.param(asked("a b"), "Invalid", f'type: Invalid value: "a b": {NAME_PART_RULE}', id="no-qualified-name"),
        pytest.param(
            asked(status="true"),
            "Invalid",
            'status: Unsupported value: "true": supported values: "True", "False", "Unknown"',
            id="a-status-that-is-none",
        ),
        pytest.param(
            asked(reason="x" * 1025), "Invalid", "reason: Too long: may not be more than 1024 bytes", id="a-long-reason"
        ),
        pytest.param(
            asked(message="ü" * 16385),
            "Invalid",
            "message: Too long: may not be more than 32768 bytes",
            id="a-long-message",
        ),
    ],
)
def test_what_may_be_set(wish: SetCondition, reason: str, message: str) -> None:
    """Every type that the API would accept from others, with a change."""
    refusal = why_not(situation(containers={"web": up()}, given_conditions=dict(GIVEN)), wish)
    assert (refusal.reason if refusal else "") == reason
    assert (refusal.message if refusal else "").startswith(message)


@pytest.mark.parametrize(
    ("wish", "since"),
    [
        pytest.param(asked(message="still"), -60, id="the-same-status-keeps-its-time"),
        pytest.param(asked(status="False"), 5, id="another-takes-the-present-one"),
        pytest.param(asked("gate1"), 5, id="a-new-one-too"),
    ],
)
def test_its_time(wish: SetCondition, since: float) -> None:
    """LastTransitionTime follows the status, not the message."""
    here = situation(context=Context(now=at(5)), given_conditions=dict(GIVEN))
    apply_signal(here, wish)
    assert here.observed.given_conditions[wish.type] == GivenCondition(
        wish.status, at(since), wish.reason, wish.message
    )
