"""Which ids may pods' user namespaces have? Rows of userns_manager_test.go and kubelet_pods_test.go."""

import pytest

from proto.kubernetes.user_ids import UNIT, IdRanges
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.settings.user_namespaces import id_ranges, missing_user_namespaces


@pytest.mark.parametrize(
    ("printed", "ranges"),
    [
        pytest.param(None, IdRanges(), id="nobody-keeps-ids-for-the-kubelet"),
        pytest.param("0: kubelet 65536 2147483648\n", IdRanges(65536, 2147483648), id="kept-ones"),
        pytest.param(f"0: kubelet {UNIT} {110 * UNIT}\n", IdRanges(UNIT, 110 * UNIT), id="just-enough"),
    ],
)
def test_which_ids_there_are(printed: str | None, ranges: IdRanges) -> None:
    """All above the first range, or what is kept."""
    assert id_ranges(UNIT, 110, lambda: printed) == ranges


def test_larger_ranges() -> None:
    """The first one is as large as each, and the node's own."""
    assert id_ranges(2 * UNIT, 110, lambda: None) == IdRanges(2 * UNIT, 2**32 - 2 * UNIT, 2 * UNIT)


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        pytest.param("", "one line of four words", id="nothing"),
        pytest.param("0: kubelet 65536 2147483648\n1: kubelet 1 1\n", "one line of four words", id="two-lines"),
        pytest.param("0: kubelet 65536\n", "one line of four words", id="three-words"),
        pytest.param("0: kubelet a 65536\n", "two numbers", id="no-number"),
        pytest.param(f"0: kubelet {2**32} 65536\n", "two numbers", id="a-number-too-large"),
        pytest.param("0: kubelet 1 2147483648\n", "must be multiples of 65536", id="first-in-the-middle"),
        pytest.param("0: kubelet 65536 65537\n", "must be multiples of 65536", id="count-in-the-middle"),
        pytest.param("0: kubelet 0 2147483648\n", "must start at 65536", id="the-node's-own"),
        pytest.param("0: kubelet 65536 65536\n", "are not enough for 110 pods", id="too-few"),
    ],
)
def test_what_can_not_be_given_out(printed: str, why: str) -> None:
    """The worker does not start, and the error says why."""
    with pytest.raises(ConfigurationRefused, match=why):
        id_ranges(UNIT, 110, lambda: printed)


@pytest.mark.parametrize(
    ("handlers", "named"),
    [
        pytest.param({}, "it tells of none", id="containerd-1.7"),
        pytest.param({"": False, "runc": False}, "runc, the default one", id="runc-1.1"),
    ],
)
def test_an_old_runc_is_told(handlers: dict[str, bool], named: str) -> None:
    """Which handlers were asked, and what is needed."""
    said = missing_user_namespaces(handlers)
    assert f"({named})" in said
    assert "runc 1.2 or crun" in said


def test_one_handler_is_enough() -> None:
    """A RuntimeClass may name it."""
    assert missing_user_namespaces({"runc": False, "crun": True}) == ""
