"""Is the query of exec, attach and port-forward parsed as by the kubelet, and refused in its words?"""

import pytest
from yarl import URL

from worker.api.responses.responses import Refused
from worker.api.streams.options import StreamOptions, ports, stream_options


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        pytest.param("input=1&output=1&error=1", StreamOptions(True, True, True, False), id="all"),
        pytest.param("output=1&error=1&tty=1", StreamOptions(False, True, False, True), id="a-terminal-has-no-stderr"),
        pytest.param("output=true&error=1", StreamOptions(False, False, True, False), id="only-1-is-a-yes"),
    ],
)
def test_streams_are_those_that_are_asked_for(query: str, wanted: StreamOptions) -> None:
    """By the kubelet's names."""
    assert stream_options(URL(f"/?{query}", encoded=True).query) == wanted


@pytest.mark.parametrize("query", ["", "tty=1", "error=1&tty=1"])
def test_no_stream_at_all_is_refused(query: str) -> None:
    """With a terminal, stderr does not count."""
    with pytest.raises(Refused, match="at least 1 of stdin, stdout, stderr") as refused:
        stream_options(URL(f"/?{query}", encoded=True).query)
    assert refused.value.status == 400


def test_ports_are_listed_in_either_way() -> None:
    """Repeated, or separated by commas."""
    assert ports(URL("/?port=80,443&port=8080&port=0099").query) == [80, 443, 8080, 99]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        pytest.param("", "is required", id="none"),
        pytest.param("port=", "cannot be empty", id="an-empty-one"),
        pytest.param("port=80,", "as a port", id="an-empty-one-behind-a-comma"),
        pytest.param("port=http", "as a port", id="a-name"),
        pytest.param("port=-1", "as a port", id="below-0"),
        pytest.param("port=0", "must be > 0", id="zero"),
        pytest.param("port=65536", "as a port", id="too-high"),
        pytest.param("port=" + "9" * 5000, "as a port", id="longer-than-python-reads"),
        pytest.param("port=%D9%A3", "as a port", id="another-scripts-digit"),
    ],
)
def test_what_is_no_port_is_refused(query: str, told: str) -> None:
    """As a client error."""
    with pytest.raises(Refused, match=told) as refused:
        ports(URL(f"/?{query}", encoded=True).query)
    assert refused.value.status == 400


def test_a_long_text_of_a_client_is_not_repeated() -> None:
    """A refusal is short, whatever was asked."""
    with pytest.raises(Refused) as refused:
        ports(URL(f"/?port={'x' * 5000}").query)
    assert "x" * 201 not in refused.value.sentence
