"""Does the worker read the values that the poller wrote with another JSON library?"""

import string
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proto.temporal.pod import NodeSettings, PodStart
from proto.temporal.signals import DeletionRequested, PodListed, RuntimeChanged
from worker.payloads.receiving import ReceivingConverter
from worker.payloads.sending import SendingConverter

WORDS: Final = st.text(max_size=8)
NUMBERS: Final = st.integers(0, 2**53)
DURATIONS: Final = st.timedeltas(timedelta(days=-3), timedelta(days=4000))
POD: Final = st.dictionaries(
    st.text(string.ascii_letters, max_size=5),
    st.recursive(
        st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)
TOLD: Final = {
    PodStart: st.builds(
        PodStart,
        node=WORDS,
        pod=POD,
        path=WORDS,
        behaviour=NUMBERS,
        settings=st.builds(
            NodeSettings, max_container_restart_period=DURATIONS, host_ips=st.lists(WORDS, max_size=2).map(tuple)
        ),
    ),
    PodListed: st.builds(PodListed, source=WORDS, sequence=NUMBERS, pod=st.none() | POD, in_place=st.booleans()),
    DeletionRequested: st.builds(
        DeletionRequested, source=WORDS, reason=WORDS, message=WORDS, grace=st.none() | DURATIONS, sequence=NUMBERS
    ),
    RuntimeChanged: st.builds(
        RuntimeChanged, source=WORDS, exited=st.lists(WORDS, max_size=2).map(tuple), sandbox_lost=st.booleans()
    ),
    str: WORDS,
}
"""Every type that the poller sends, and the summary shown in Temporal's UI."""


@pytest.mark.parametrize("shape", TOLD, ids=lambda shape: shape.__name__)
def test_what_is_told_is_read_as_it_was_meant(shape: type) -> None:
    """Any value of any type; the payload's encoding is the same, too."""

    @settings(max_examples=60, deadline=None)
    @given(TOLD[shape])
    def comes_back(value: Any) -> None:
        telling, reading = SendingConverter(), ReceivingConverter()
        [told], [written] = telling.to_payloads([value]), reading.to_payloads([value])
        assert reading.from_payloads([told], [shape]) == [value]
        assert told.metadata == written.metadata

    comes_back()


def test_what_json_has_no_word_for_is_refused() -> None:
    """A new kind of field shows here, not in a workflow that cannot read it."""
    with pytest.raises(TypeError, match="not JSON serializable"):
        SendingConverter().to_payloads([object()])
