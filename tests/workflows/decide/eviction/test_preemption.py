"""Which pods are stopped so that a critical one has room?"""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proto.temporal.eviction.candidates import Candidate
from proto.temporal.pod_inputs import Rejected
from tests.workflows.decide.eviction.pressed_pods import named, of_spec
from workflows.decide.eviction.preemption import FAILED, Lack, Preemption, may_preempt, preempt, request, why_this_one

CRITICAL = named("critical", 2_000_000_000)
TAINT = Rejected("TaintToleration", "Predicate TaintToleration failed: taints")
PORTS = Rejected("NodePorts", "Predicate NodePorts failed: ports")
FAILURE = (
    "Unexpected error while attempting to recover from admission failure: "
    "preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: "
)


def guaranteed(name: str, cpu: str, memory: str) -> Candidate:
    """Build a pod whose limits are its requests."""
    amounts = {"cpu": cpu, "memory": memory}
    return of_spec(name, {"containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]})


def lack(resource: str, amount: int) -> Lack:
    """Build a lack of so much: of a full node."""
    return Lack(resource, amount, 1000, 1000)


def stopped(pods: Sequence[Candidate], *lacks: Lack, preemptor: Candidate = CRITICAL) -> str:
    """Return the victims' names."""
    found = preempt(preemptor, pods, lacks)
    assert found.rejected is None
    return " ".join(one.name for one in found.victims)


SMALL, LARGE = named("small", cpu="100m", memory="100Mi"), named("large", cpu="300m", memory="300Mi")
BEST, SOLID = named("best"), guaranteed("solid", "500m", "500Mi")


@pytest.mark.parametrize(
    ("pods", "lacks", "expected"),
    [
        pytest.param([SMALL, LARGE], [lack("cpu", 50)], "small", id="of-two-that-suffice-the-smaller"),
        pytest.param([SMALL, LARGE], [lack("cpu", 200)], "large", id="one-that-suffices-rather-than-two"),
        pytest.param([SMALL, LARGE], [lack("cpu", 400)], "large small", id="both-the-nearest-first"),
        pytest.param(
            [SOLID, SMALL, LARGE], [lack("cpu", 400)], "large small", id="no-guaranteed-one-if-others-suffice"
        ),
        pytest.param(
            [SOLID, SMALL, LARGE], [lack("cpu", 600)], "small solid", id="a-guaranteed-one-only-for-what-others-lack"
        ),
        pytest.param([SOLID, SMALL, LARGE], [lack("cpu", 900)], "large small solid", id="all"),
        pytest.param([BEST, SMALL], [lack("pods", 1)], "best", id="a-place-from-a-best-effort-one"),
        pytest.param([BEST, SMALL], [lack("pods", 1), lack("cpu", 10)], "small", id="a-place-that-another-gives-too"),
        pytest.param([SMALL, LARGE], [lack("cpu", 100), lack("memory", 200 << 20)], "large", id="two-resources"),
        pytest.param([SMALL], [Lack("cpu", 10, 0, 50)], "", id="nothing-is-lacking"),
    ],
)
def test_victims(pods: list[Candidate], lacks: list[Lack], expected: str) -> None:
    """As getPodsToPreempt."""
    assert stopped(pods, *lacks) == expected


def test_only_resources_are_preempted_for() -> None:
    """Nobody is stopped for a pod that is rejected anyway; the resources are then no reason."""
    assert preempt(CRITICAL, [SMALL], [lack("cpu", 10), PORTS, TAINT]) == Preemption(rejected=PORTS)


def test_an_ordinary_pod_is_rejected() -> None:
    """With the first reason."""
    found = preempt(named("ordinary", 1_000_000), [BEST], [Lack("pods", 1, 3, 3), TAINT])
    message = "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
    assert found == Preemption(rejected=Rejected("OutOfpods", message))


def test_no_set_has_enough() -> None:
    """The kubelet's words."""
    found = preempt(CRITICAL, [SMALL], [lack("cpu", 150), lack("memory", 1)])
    assert found.rejected == Rejected(FAILED, f"{FAILURE}[(res: cpu, q: 50), ]")


@pytest.mark.parametrize(
    ("preemptor", "pod", "allowed"),
    [
        pytest.param(CRITICAL, SMALL, True, id="critical-for-another"),
        pytest.param(CRITICAL, CRITICAL, False, id="not-for-an-equal"),
        pytest.param(named("a", 2_000_001_000), CRITICAL, True, id="critical-for-a-less-critical"),
        pytest.param(
            CRITICAL,
            of_spec("s", {"containers": []}, kubernetes_io__config_source="file"),
            False,
            id="not-for-a-static-one",
        ),
    ],
)
def test_preemptable(preemptor: Candidate, pod: Candidate, allowed: bool) -> None:
    """As Preemptable."""
    assert may_preempt(preemptor, pod) is allowed


@pytest.mark.parametrize(
    ("pods", "lacks", "said"),
    [
        pytest.param(
            [SMALL, LARGE, SOLID],
            [lack("cpu", 400)],
            "default/critical needs 400m cpu more than is left, and this Burstable pod requests 300m cpu; "
            "stopped with it: default/small; not needed besides: default/solid (Guaranteed)",
            id="with-another",
        ),
        pytest.param(
            [LARGE],
            [lack("pods", 1), lack("memory", 200 << 20), lack("example.com/disk", 0)],
            "default/critical needs 1 place and 200Mi memory and 0 example.com/disk more than is left, "
            "and this Burstable pod requests 1 place and 300Mi memory and 0 example.com/disk",
            id="alone",
        ),
        pytest.param(
            [LARGE, *(named(f"p{number}", cpu="1m") for number in range(7))],
            [lack("cpu", 300)],
            "default/critical needs 300m cpu more than is left, and this Burstable pod requests 300m cpu; not needed besides: "
            + ", ".join(f"default/p{number} (Burstable)" for number in range(5))
            + " and 2 more",
            id="of-many",
        ),
    ],
)
def test_why_this_one(pods: list[Candidate], lacks: list[Lack], said: str) -> None:
    """In words, for history and explain."""
    found = preempt(CRITICAL, pods, lacks)
    assert (why_this_one(found.victims[0], CRITICAL, found), found.signal) == (said, lacks[0].resource)


SIZES = st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8)


@settings(deadline=None)
@given(SIZES, st.integers(1, 8), st.integers(1, 8))
def test_what_is_stopped_suffices(sizes: list[tuple[bool, int, int]], cpu: int, memory: int) -> None:
    """The victims free all that lacks, or all pods together could not; none of one class is stopped in vain."""
    pods = [
        guaranteed(str(number), str(cpus or 1), str(bytes_ or 1))
        if solid
        else named(str(number), cpu=str(cpus), memory=str(bytes_))
        for number, (solid, cpus, bytes_) in enumerate(sizes)
    ]
    needs = {"cpu": cpu * 1000, "memory": memory}
    found = preempt(CRITICAL, pods, [lack(name, amount) for name, amount in needs.items()])
    freed = {name: sum(request(pod, name) for pod in (found.victims or pods)) for name in needs}
    assert all(freed[name] >= needs[name] for name in needs) is bool(found.victims)
    assert bool(found.victims) is (found.rejected is None)
