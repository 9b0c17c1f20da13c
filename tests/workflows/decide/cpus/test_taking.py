"""Which CPUs are taken of those that are free?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.decide.cpus.machines import machine
from workflows.decide.cpus.cpu_sets import CpuListError, parse_cpus, written_cpus
from workflows.decide.cpus.distributed import combinations, take_distributed
from workflows.decide.cpus.packed import CpusError, take_packed
from workflows.decide.cpus.topology import Core, Topology, TopologyError

ONE, TWO = machine(), machine(sockets=2)


@pytest.mark.parametrize(
    ("topology", "free", "count", "expected"),
    [
        pytest.param(ONE, "0-7", 1, "0", id="the-first-thread"),
        pytest.param(ONE, "0-7", 2, "0,4", id="a-whole-core"),
        pytest.param(ONE, "0-7", 3, "0-1,4", id="a-core-and-a-thread"),
        pytest.param(ONE, "1-7", 1, "4", id="the-rest-of-a-core-in-use"),
        pytest.param(ONE, "0-7", 8, "0-7", id="all"),
        pytest.param(TWO, "0-15", 8, "0-3,8-11", id="a-whole-socket"),
        pytest.param(TWO, "1-15", 8, "4-7,12-15", id="the-socket-that-is-whole"),
        pytest.param(TWO, "3-7,11-15", 2, "3,11", id="the-fuller-socket-first"),
    ],
)
def test_packed(topology: Topology, free: str, count: int, expected: str) -> None:
    """Whole parts first, then those that are used most."""
    assert written_cpus(take_packed(topology, parse_cpus(free), count)) == expected


def test_spread() -> None:
    """Threads of different cores."""
    assert written_cpus(take_packed(ONE, parse_cpus("0-7"), 3, spread=True)) == "0-2"


def test_one_uncore_cache_is_preferred() -> None:
    """The first cache has too few, so the second gives all."""
    here = machine(cores=8, threads=1, caches=2)
    assert written_cpus(take_packed(here, parse_cpus("2-7"), 3)) == "2-4"
    assert written_cpus(take_packed(here, parse_cpus("2-7"), 3, align_by_cache=True)) == "4-6"


@pytest.mark.parametrize(
    ("free", "count", "group", "expected"),
    [
        pytest.param("0-15", 4, 1, "0-1,8-9", id="one-node-suffices"),
        pytest.param("0-15", 10, 1, "0-2,4-6,8-9,12-13", id="evenly-over-two"),
        pytest.param("0-15", 12, 2, "0-2,4-6,8-10,12-14", id="in-whole-cores"),
    ],
)
def test_distributed(free: str, count: int, group: int, expected: str) -> None:
    """As few NUMA nodes as can hold them evenly."""
    assert written_cpus(take_distributed(TWO, parse_cpus(free), count, group)) == expected


def test_too_many_are_refused() -> None:
    """In the kubelet's words."""
    words = "not enough cpus available to satisfy request: requested=9, available=8"
    with pytest.raises(CpusError, match=words):
        take_packed(ONE, parse_cpus("0-7"), 9)
    with pytest.raises(CpusError, match=words):
        take_distributed(ONE, parse_cpus("0-7"), 9, 1)


@given(
    sockets=st.integers(1, 4),
    cores=st.integers(1, 4),
    threads=st.integers(1, 3),
    data=st.data(),
)
def test_as_many_as_asked_of_the_free_ones(sockets: int, cores: int, threads: int, data: st.DataObject) -> None:
    """Never more, and none that is in use; groups may be parts of cores, where the kubelet would loop."""
    here = machine(sockets, cores, threads)
    free = data.draw(st.frozensets(st.sampled_from(sorted(here.places.cpus))))
    count = data.draw(st.integers(0, len(free)))
    packed = take_packed(here, free, count, spread=data.draw(st.booleans()), align_by_cache=data.draw(st.booleans()))
    distributed = take_distributed(here, free, count, data.draw(st.sampled_from([1, threads])))
    for found in (packed, distributed):
        assert found <= free
        assert len(found) == count


def test_kept_choices_are_overwritten_as_in_the_kubelet() -> None:
    """Those of four have the last item of the last choice with the same beginning; those of three stay."""
    assert [list(one) for one in list(combinations(range(4), 3))] == [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]
    assert [list(one) for one in list(combinations(range(5), 4))] == [
        [0, 1, 2, 4],
        [0, 1, 2, 4],
        [0, 1, 3, 4],
        [0, 2, 3, 4],
        [1, 2, 3, 4],
    ]


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,8", "1,3,5-6"])
def test_lists_are_read_as_written(text: str) -> None:
    """With the fewest ranges."""
    assert written_cpus(parse_cpus(text)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", 'strconv.Atoi: parsing "x": invalid syntax'),
        ("0-", 'strconv.Atoi: parsing "": invalid syntax'),
        ("3-1", r'invalid range "3-1" \(3 > 1\)'),
    ],
)
def test_other_texts_are_refused(text: str, why: str) -> None:
    """In the kubelet's words."""
    with pytest.raises(CpuListError, match=why):
        parse_cpus(text)


@pytest.mark.parametrize(
    ("threads", "cpus", "why"),
    [
        ((0,), 0, "could not detect number of cpus"),
        ((), 1, "no cpus provided"),
        ((0, 0), 2, "cpus provided are not unique"),
    ],
)
def test_a_useless_topology_is_refused(threads: tuple[int, ...], cpus: int, why: str) -> None:
    """In the kubelet's words."""
    with pytest.raises(TopologyError, match=why):
        Topology.discover({0: [Core(threads, 0)]}, cpus=cpus, sockets=1)
