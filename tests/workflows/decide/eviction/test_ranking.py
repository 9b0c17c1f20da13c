"""Which pod is evicted first?"""

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proto.temporal.eviction.candidates import Candidate
from proto.temporal.eviction.readings import ContainerUse, FileUse, PodUse
from tests.workflows.decide.eviction.pressed_pods import MI, container, named, of_spec, uses
from workflows.decide.eviction.disks import Files
from workflows.decide.eviction.ranking import rank

ALL = frozenset(Files)
UNKNOWN: Mapping[str, PodUse] = {}


def order(pods: list[Candidate], used: Mapping[str, PodUse], resource: str, files: frozenset[Files] = ALL) -> str:
    """Return the names in their order."""
    return " ".join(one.pod.name for one in rank(pods, used, resource, files))


@pytest.mark.parametrize(
    ("pods", "used", "expected"),
    [
        pytest.param(
            [named("a", memory="100Mi"), named("b", memory="10Mi")],
            {"a": uses(90 * MI), "b": uses(11 * MI)},
            "b a",
            id="one-above-its-request-first",
        ),
        pytest.param(
            [named("a", 10), named("b", -5), named("c")],
            {name: uses(MI) for name in "abc"},
            "b c a",
            id="of-those-the-lowest-priority",
        ),
        pytest.param(
            [named("a", memory="100Mi"), named("b", memory="300Mi")],
            {"a": uses(150 * MI), "b": uses(320 * MI)},
            "a b",
            id="then-the-most-above-its-request",
        ),
        pytest.param(
            [named("a", memory="100Mi"), named("b", memory="300Mi")],
            {"a": uses(50 * MI), "b": uses(100 * MI)},
            "a b",
            id="of-those-below-the-nearest-to-it",
        ),
        pytest.param([named("a"), named("b", 5)], {"a": uses(MI)}, "b a", id="one-without-statistics-before-all"),
        pytest.param(
            [named("a", memory="1Mi"), named("b")], {"a": uses(MI), "b": uses(0)}, "a b", id="equal-ones-stay-in-place"
        ),
        pytest.param(
            [named("a", memory="1Mi"), named("b")], {"a": uses(MI), "b": uses(None)}, "a b", id="no-figure-is-nothing"
        ),
    ],
)
def test_memory(pods: list[Candidate], used: Mapping[str, PodUse], expected: str) -> None:
    """As rankMemoryPressure."""
    assert order(pods, used, "memory") == expected


@pytest.mark.parametrize(
    ("pods", "used", "expected"),
    [
        pytest.param(
            [named("a", 5), named("b", 1)],
            {"a": uses(processes=900), "b": uses(processes=1)},
            "b a",
            id="priority-first",
        ),
        pytest.param(
            [named("a"), named("b")],
            {"a": uses(processes=1), "b": uses(processes=2)},
            "b a",
            id="then-the-most-processes",
        ),
        pytest.param(
            [named("a", 1), named("b", 5)], {"a": uses(processes=9)}, "a b", id="no-statistics-come-after-priority"
        ),
        pytest.param(
            [named("a"), named("b")], {"a": uses(processes=9)}, "b a", id="no-statistics-before-the-most-processes"
        ),
    ],
)
def test_process_ids(pods: list[Candidate], used: Mapping[str, PodUse], expected: str) -> None:
    """As rankPIDPressure."""
    assert order(pods, used, "pids") == expected


def files(root: int, logs: int, **volumes: int) -> PodUse:
    """Build a use of bytes, with as many inodes."""
    of_container = ContainerUse("c", None, FileUse(root, root), FileUse(logs, logs))
    return PodUse(containers=(of_container,), volumes={name: FileUse(size, size) for name, size in volumes.items()})


VOLUMES = [{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}]
HOLDING = [
    of_spec("root", {"containers": [container("c")]}),
    of_spec("logs", {"containers": [container("c")]}),
    of_spec("disk", {"containers": [container("c")], "volumes": VOLUMES}),
    of_spec("memory", {"containers": [container("c")], "volumes": VOLUMES}),
]
HELD = {"root": files(50, 0), "logs": files(0, 40), "disk": files(0, 0, disk=30), "memory": files(5, 4, memory=90)}


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        pytest.param(ALL, "root logs disk memory", id="everything-but-volumes-in-memory"),
        pytest.param(frozenset({Files.ROOT}), "root memory logs disk", id="writable-layers"),
        pytest.param(frozenset({Files.LOGS, Files.VOLUMES}), "logs disk memory root", id="logs-and-volumes"),
        pytest.param(frozenset(), "root logs disk memory", id="nothing-so-they-stay-in-place"),
    ],
)
@pytest.mark.parametrize("resource", ["ephemeral-storage", "inodes"])
def test_disks(counted: frozenset[Files], expected: str, resource: str) -> None:
    """As rankDiskPressureFunc."""
    assert order(HOLDING, HELD, resource, counted) == expected


def test_inodes_less_the_request_of_bytes() -> None:
    """Copied from the kubelet: a request of ephemeral storage puts a pod behind one with fewer inodes."""
    pods = [named("a", ephemeral_storage="1Ki"), named("b")]
    used = {"a": uses(root_inodes=900), "b": uses(root_inodes=10)}
    assert order(pods, used, "inodes") == "b a"


@pytest.mark.parametrize(
    ("pod", "used", "resource", "expected"),
    [
        pytest.param(
            named("a", 5, memory="1Mi"),
            {"a": uses(2 * MI)},
            "memory",
            "it uses 2Mi of memory, more than it requests; priority 5",
            id="memory",
        ),
        pytest.param(
            named("a", memory="4Mi"),
            {"a": uses(2 * MI)},
            "memory",
            "it uses 2Mi of memory, no more than it requests; priority 0",
            id="below-its-request",
        ),
        pytest.param(
            named("a", 5), UNKNOWN, "memory", "nothing is known of what it uses; priority 5", id="no-statistics"
        ),
        pytest.param(
            named("a"), {"a": uses(processes=3)}, "pids", "priority 0; it has 3 processes and threads", id="process-ids"
        ),
        pytest.param(
            named("a"),
            {"a": uses(root_inodes=3)},
            "inodes",
            "it uses 3 inodes, more than nothing; priority 0",
            id="inodes",
        ),
    ],
)
def test_why(pod: Candidate, used: Mapping[str, PodUse], resource: str, expected: str) -> None:
    """For `tempolet history`."""
    assert rank([pod], used, resource, ALL)[0].why(resource) == expected


FIGURES = st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3), st.none() | st.integers(0, 3)), max_size=12)


@settings(deadline=None)
@given(FIGURES)
def test_no_pod_goes_before_a_worse_one(figures: list[tuple[int, int, int | None]]) -> None:
    """Of two pods with statistics that both exceed their requests, the one of lower priority never comes later."""
    pods = [
        named(str(number), priority, memory=f"{request}Mi") for number, (priority, request, _) in enumerate(figures)
    ]
    used = {str(number): uses(use * MI) for number, (_, _, use) in enumerate(figures) if use is not None}
    ranked = rank(pods, used, "memory", ALL)
    assert sorted(one.pod.name for one in ranked) == sorted(pod.name for pod in pods)
    for one, after in pairwise(ranked):
        assert (one.used is None) >= (after.used is None)
        if one.used is not None:
            assert one.exceeds >= after.exceeds
            assert one.exceeds > after.exceeds or one.priority <= after.priority
