"""What is logged of a plugin that registers again and again?"""

import pytest

from workflows.decide.devices.registering import MANY, Registrations, Said

IT, OFTEN, NOTHING = Said.IT, Said.OFTEN, Said.NOTHING


@pytest.mark.parametrize(
    ("times", "said"),
    [
        pytest.param([0], [IT], id="one"),
        pytest.param(range(0, 600, 60), [IT] * 10, id="each-minute"),
        pytest.param(range(0, 300, 15), [IT] * 20, id="each-quarter-of-a-minute"),
        pytest.param(range(100), [IT] * 5 + [OFTEN] + [NOTHING] * 94, id="each-second"),
        pytest.param(range(0, 600, 11), [IT] * 5 + [OFTEN] + [NOTHING] * 49, id="often-and-just-so"),
        pytest.param([0, 1, 2, 3, 4, 5, 6, 90], [IT] * 5 + [OFTEN, NOTHING, IT], id="calm-again"),
        pytest.param(
            [*range(6), 50, 70, 109, *range(200, 206)],
            [IT] * 5 + [OFTEN, NOTHING, IT, IT] + [IT] * 5 + [OFTEN],
            id="calmer-then-often-again",
        ),
    ],
)
def test_what_is_logged(times: list[int], said: list[Said]) -> None:
    """The first ones, one warning, and nothing until it is calm; what is remembered is bounded."""
    known, found = Registrations(), []
    for now in times:
        known, one = known.with_one(float(now))
        found.append(one)
        assert len(known.times) <= MANY
    assert found == said
