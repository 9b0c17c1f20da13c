"""Are durations parsed and formatted as by Kubernetes?"""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.kubernetes.go_duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        pytest.param("0", timedelta(), id="zero-needs-no-unit"),
        pytest.param("90s", timedelta(seconds=90), id="seconds"),
        pytest.param("1m30s", timedelta(seconds=90), id="minutes-and-seconds"),
        pytest.param("1h1h", timedelta(hours=2), id="a-unit-twice"),
        pytest.param("1.5h", timedelta(minutes=90), id="a-fraction"),
        pytest.param(".5s", timedelta(milliseconds=500), id="a-bare-fraction"),
        pytest.param("100ms", timedelta(milliseconds=100), id="milliseconds"),
        pytest.param("3us", timedelta(microseconds=3), id="microseconds"),
        pytest.param("3\u00b5s", timedelta(microseconds=3), id="the-micro-sign"),
        pytest.param("1500ns", timedelta(microseconds=2), id="below-a-microsecond-is-rounded"),
        pytest.param("-10s", timedelta(seconds=-10), id="negative"),
        pytest.param("+10s", timedelta(seconds=10), id="plus"),
    ],
)
def test_what_go_reads(text: str, duration: timedelta) -> None:
    """The grammar of time.ParseDuration."""
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text", ["", "-", "10", "1d", "1 s", "s", "1m30", "--1s", "1e3s", "\u0661s", "9999999h", "1" * 50_000]
)
def test_what_go_refuses(text: str) -> None:
    """Days are no unit, and 292 years the end."""
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000)))
def test_what_is_said_is_read_again(duration: timedelta) -> None:
    """A duration in a message can be copied into a configuration."""
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("duration", "said"),
    [
        pytest.param(timedelta(), "0s", id="zero"),
        pytest.param(timedelta(minutes=5, seconds=1), "5m1s", id="minutes"),
        pytest.param(timedelta(hours=4), "4h0m0s", id="hours"),
        pytest.param(timedelta(milliseconds=100), "100ms", id="milliseconds"),
        pytest.param(timedelta(seconds=1.25), "1.25s", id="a-fraction"),
    ],
)
def test_as_go_says_it(duration: timedelta, said: str) -> None:
    """As the kubelet prints them."""
    assert format_duration(duration) == said
