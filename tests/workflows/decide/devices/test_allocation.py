"""Which devices does a container get, and in which words is it refused?"""

from collections.abc import Collection

import pytest

from workflows.decide.devices.allocation import (
    DevicesUnavailable,
    NotYetRegistered,
    Preference,
    Request,
    choose,
    ordered,
)
from workflows.decide.devices.inventory import UNREGISTERED, Listed

NAME = "example.com/gpu"


def near(**nodes: Collection[int]) -> Listed:
    """List healthy devices with the NUMA nodes near them."""
    return Listed({name: tuple(found) for name, found in nodes.items()}, frozenset(nodes))


FOUR = near(a=[0], b=[0], c=[1], d=[])


def request(wanted: int, **fields: object) -> Request:
    """Build a request of one container."""
    return Request(uid="u", container="c", resource=NAME, wanted=wanted, **fields)  # type: ignore[arg-type]  # by row


@pytest.mark.parametrize(
    ("asked", "listed", "preferred", "given"),
    [
        pytest.param(request(1), FOUR, [], {"a"}, id="the-lowest-name"),
        pytest.param(request(1), FOUR, ["d"], {"d"}, id="what-the-plugin-prefers"),
        pytest.param(request(1, nodes=(1,)), FOUR, [], {"c"}, id="the-aligned-one"),
        pytest.param(request(1, nodes=(0,)), FOUR, ["b", "c"], {"b"}, id="a-preferred-one-of-the-aligned"),
        pytest.param(request(2, nodes=(1,)), FOUR, ["d"], {"c", "d"}, id="aligned-ones-before-preferred-ones"),
        pytest.param(request(2, nodes=(1,)), FOUR, [], {"c", "a"}, id="then-another-node"),
        pytest.param(request(4, nodes=(1,)), FOUR, [], {"a", "b", "c", "d"}, id="those-without-a-node-last"),
        pytest.param(request(1, reusable=frozenset("b")), FOUR, ["a"], {"b"}, id="what-an-init-container-left"),
        pytest.param(
            request(2, reusable=frozenset("b"), in_use=frozenset("ab")), FOUR, [], {"b", "c"}, id="and-a-free-one"
        ),
        pytest.param(request(2, has=frozenset("cd")), FOUR, [], set(), id="nothing-more-for-a-restarted-one"),
        pytest.param(request(0), FOUR, [], set(), id="none-wanted"),
        pytest.param(request(1, runs=True), UNREGISTERED, [], set(), id="a-running-one-is-spared"),
        pytest.param(request(1), FOUR, ["no-such-device"], {"a"}, id="a-plugin-that-prefers-what-there-is-not"),
    ],
)
def test_devices_are_given(asked: Request, listed: Listed, preferred: list[str], given: set[str]) -> None:
    """In the kubelet's order."""
    found = choose(asked, {NAME: listed})
    assert (found.answered(preferred) if isinstance(found, Preference) else found) == given


@pytest.mark.parametrize(
    ("asked", "listed", "kind", "words"),
    [
        pytest.param(request(1), None, NotYetRegistered, f"cannot allocate unregistered device {NAME}", id="unknown"),
        pytest.param(
            request(1),
            UNREGISTERED,
            NotYetRegistered,
            f"no healthy devices present; cannot allocate unhealthy devices {NAME}",
            id="not-registered-since-the-start",
        ),
        pytest.param(
            request(1),
            FOUR.disconnected(),
            DevicesUnavailable,
            f"no healthy devices present; cannot allocate unhealthy devices {NAME}",
            id="the-plugin-is-gone",
        ),
        pytest.param(
            request(1, has=frozenset("x")),
            FOUR,
            DevicesUnavailable,
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {NAME}",
            id="its-device-is-ill",
        ),
        pytest.param(
            request(3, in_use=frozenset("ab")),
            FOUR,
            DevicesUnavailable,
            f"requested number of devices unavailable for {NAME}. Requested: 3, Available: 2",
            id="too-few",
        ),
        pytest.param(
            request(3, has=frozenset("a")),
            FOUR,
            DevicesUnavailable,
            f'pod "u" container "c" changed request for resource "{NAME}" from 1 to 3',
            id="another-number",
        ),
    ],
)
def test_devices_are_refused(asked: Request, listed: Listed | None, kind: type[DevicesUnavailable], words: str) -> None:
    """In the kubelet's words."""
    with pytest.raises(DevicesUnavailable) as refused:
        choose(asked, {} if listed is None else {NAME: listed})
    assert (type(refused.value), str(refused.value)) == (kind, words)


def test_names_with_numbers() -> None:
    """A number counts by its value, and no name is too odd."""
    long = "9" * 200
    assert ordered(["gpu-10", "gpu-9", "10", "9", "x", "", long]) == ["", "9", "10", long, "gpu-9", "gpu-10", "x"]
