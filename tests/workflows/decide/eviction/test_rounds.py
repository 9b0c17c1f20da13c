"""What happens in a round, and to which pod?"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.eviction.candidates import Candidate
from proto.temporal.eviction.pressure import Pressure
from proto.temporal.eviction.readings import FileUse, MemoryReading, NodeReading, Observations, PodUse
from proto.temporal.eviction.thresholds import Disks, EvictionPolicy, Signal
from tests.workflows.decide.eviction.pressed_pods import MI, at, container, left, named, of_spec, threshold, uses
from workflows.decide.eviction.disks import Reclaim
from workflows.decide.eviction.rounds import (
    EVERY,
    SOONEST,
    Facts,
    Round,
    Victim,
    begin_round,
    choose_victim,
    is_relieved,
    until_next_round,
    usages_to_hear_of,
)

HARD = threshold(Signal.MEMORY, "100Mi")
SOFT = threshold(Signal.MEMORY, "200Mi", 60)
DISK = threshold(Signal.NODE_FS, "100Mi", reclaim="50Mi")
POLICY = EvictionPolicy((HARD, DISK), longest_grace_seconds=20)
CRITICAL = 2_000_000_000
PODS = (named("kind", 5), named("greedy", 5, memory="1Mi"), named("system", CRITICAL))
USES = {"kind": uses(MI), "greedy": uses(9 * MI), "system": uses(90 * MI)}


def first_round(policy: EvictionPolicy, facts: Facts) -> Round:
    """Judge for the first time."""
    return begin_round(policy, Pressure(), facts, at(0))


def victim(policy: EvictionPolicy, facts: Facts) -> Victim | None:
    """Choose for the most urgent threshold of a first round."""
    return choose_victim(policy, first_round(policy, facts).starved[0], facts)


def test_nothing_happens_while_nothing_is_short() -> None:
    """The state does not grow."""
    found = first_round(POLICY, Facts({Signal.MEMORY: left("500Mi"), Signal.NODE_FS: left("500Mi")}, PODS, USES))
    assert (found.starved, found.over_limits, found.reclaims) == ((), (), ())
    assert found.pressure == Pressure()


def test_memory_evicts_one_pod_at_once() -> None:
    """The one that uses most above its request; nothing can be reclaimed first."""
    facts = Facts({Signal.MEMORY: left("50Mi")}, PODS, USES)
    assert first_round(POLICY, facts).reclaims == ()
    found = victim(POLICY, facts)
    assert found is not None
    assert (found.pod.name, found.grace_seconds, found.signal, found.disrupts) == (
        "greedy",
        1,
        "memory.available",
        True,
    )
    assert found.message.startswith(
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
    )
    assert found.annotations["starved_resource"] == "memory"
    assert found.why == "it uses 9Mi of memory, more than it requests; priority 5; place 1 of 3"
    assert found.because == (
        f"{found.why}; the next would have been default/kind: it uses 1Mi of memory, more than it requests; priority 5"
    )


def test_a_critical_pod_is_passed_over() -> None:
    """And named."""
    facts = Facts({Signal.MEMORY: left("50Mi")}, (named("a", CRITICAL), named("b", memory="1Gi")), {"b": uses(MI)})
    found = victim(POLICY, facts)
    assert found is not None
    assert (found.pod.name, found.spared) == ("b", ("default/a",))
    assert found.why.endswith("place 2 of 2")
    assert found.because == (f"{found.why}; before it were critical pods, which are never evicted: default/a")


@pytest.mark.parametrize(
    "pods", [pytest.param((), id="no-pod-runs"), pytest.param((named("a", CRITICAL),), id="all-are-critical")]
)
def test_nobody_is_evicted(pods: tuple[Candidate, ...]) -> None:
    """The pressure stays."""
    assert victim(POLICY, Facts({Signal.MEMORY: left("50Mi")}, pods, {})) is None


@pytest.mark.parametrize(
    ("own", "longest", "expected"),
    [
        pytest.param(30, 20, 20, id="not-longer-than-the-longest"),
        pytest.param(10, 20, 10, id="nor-than-its-own"),
        pytest.param(None, 20, 20, id="it-has-none"),
        pytest.param(30, 0, 0, id="the-default-is-none-at-all"),
    ],
)
def test_the_grace_period_of_a_soft_threshold(own: int | None, longest: int, expected: int) -> None:
    """evictionMaxPodGracePeriod, or the pod's own."""
    policy = EvictionPolicy((SOFT,), longest_grace_seconds=longest)
    facts = Facts({Signal.MEMORY: left("150Mi")}, (replace(named("a"), grace_seconds=own),), {})
    early = begin_round(policy, Pressure(), facts, at(0))
    late = begin_round(policy, early.pressure, facts, at(60))
    found = choose_victim(policy, late.starved[0], facts)
    assert found is not None
    assert found.grace_seconds == expected


@pytest.mark.parametrize(
    ("observed", "relieved"),
    [
        pytest.param({Signal.NODE_FS: left("150Mi")}, True, id="the-minimum-is-reclaimed"),
        pytest.param({Signal.NODE_FS: left("149Mi")}, False, id="less-is"),
        pytest.param({Signal.NODE_FS: left("1Gi"), Signal.MEMORY: left("50Mi")}, False, id="memory-is-short-instead"),
        pytest.param({}, True, id="nothing-could-be-measured"),
    ],
)
def test_relieved(observed: Any, relieved: bool) -> None:
    """After reclaiming, every threshold counts."""
    assert is_relieved(POLICY, Disks(), observed) is relieved


def test_a_disk_is_reclaimed_first() -> None:
    """Dead containers, then images; the victim is chosen by the first measurement."""
    facts = Facts(
        {Signal.NODE_FS: left("50Mi")}, PODS, {"kind": uses(root=3 * MI), "greedy": uses(root=MI), "system": uses()}
    )
    assert first_round(POLICY, facts).reclaims == (Reclaim.DEAD_CONTAINERS, Reclaim.UNUSED_IMAGES)
    found = victim(POLICY, facts)
    assert found is not None
    assert found.pod.name == "kind"


def test_an_imagefs_of_its_own_leaves_nodefs_nothing_to_reclaim() -> None:
    """So a pod is evicted at once."""
    assert first_round(POLICY, Facts({Signal.NODE_FS: left("50Mi")}, PODS, {}, Disks(image_fs=True))).reclaims == ()


LIMITED = {
    "containers": [{"name": "c", "resources": {"limits": {"ephemeral-storage": "5Mi"}}}, container("d")],
    "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}],
}


def holding(volume: int = 0, whole: int = 0, root: int = 0) -> dict[str, PodUse]:
    """Build what the pod `limited` uses."""
    return {"limited": replace(uses(root=root), local_storage=whole, volumes={"data": FileUse(volume)})}


@pytest.mark.parametrize(
    ("used", "disks", "signal", "message"),
    [
        pytest.param(
            holding(volume=MI + 1, whole=9 * MI),
            Disks(),
            "emptydirfs.limit",
            'Usage of EmptyDir volume "data" exceeds the limit "1Mi". ',
            id="a-volume-before-the-pod",
        ),
        pytest.param(
            holding(whole=5 * MI + 1, root=5 * MI + 1),
            Disks(),
            "ephemeralpodfs.limit",
            "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ",
            id="the-pod-before-its-containers",
        ),
        pytest.param(
            holding(root=5 * MI + 1),
            Disks(),
            "ephemeralcontainerfs.limit",
            'Container c exceeded its local ephemeral storage limit "5Mi". ',
            id="a-container",
        ),
        pytest.param(holding(root=5 * MI + 1), Disks(image_fs=True), "", "", id="writable-layers-lie-on-imagefs"),
        pytest.param(holding(volume=MI, whole=5 * MI, root=5 * MI), Disks(), "", "", id="just-the-limit"),
        pytest.param({}, Disks(), "", "", id="no-statistics"),
    ],
)
def test_a_limit_of_the_pods_own(used: dict[str, PodUse], disks: Disks, signal: str, message: str) -> None:
    """As localStorageEviction."""
    facts = Facts({}, (of_spec("limited", LIMITED),), used, disks)
    found = first_round(POLICY, facts).over_limits
    assert [(one.signal, one.message) for one in found] == ([(signal, message)] if signal else [])
    assert all((one.grace_seconds, one.disrupts, one.annotations) == (1, False, {}) for one in found)


def test_limits_go_before_thresholds() -> None:
    """All pods that exceed one are evicted, and nothing else is done."""
    pods = (of_spec("limited", LIMITED), replace(of_spec("limited", LIMITED), name="other"), PODS[0])
    found = first_round(POLICY, Facts({Signal.MEMORY: left("50Mi")}, pods, holding(volume=2 * MI)))
    assert [one.pod.name for one in found.over_limits] == ["limited", "other"]
    assert found.starved == ()
    assert found.pressure.conditions == ("MemoryPressure",)


def test_limits_may_be_switched_off() -> None:
    """LocalStorageCapacityIsolation: false."""
    facts = Facts({}, (of_spec("limited", LIMITED),), holding(volume=2 * MI))
    assert first_round(replace(POLICY, local_storage=False), facts).over_limits == ()


def test_a_critical_pod_may_exceed_its_limits() -> None:
    """As in the kubelet."""
    facts = Facts({}, (of_spec("limited", {**LIMITED, "priority": CRITICAL}),), holding(volume=2 * MI))
    assert first_round(POLICY, facts).over_limits == ()


@pytest.mark.parametrize(
    ("observed", "wait"),
    [
        pytest.param({}, EVERY, id="nothing-is-known"),
        pytest.param({Signal.MEMORY: left("1Gi")}, EVERY, id="it-lasts-for-longer"),
        pytest.param({Signal.MEMORY: left("520Mi")}, timedelta(seconds=5), id="the-soft-one-comes-first"),
        pytest.param({Signal.MEMORY: left("101Mi")}, SOONEST, id="nearly-short-and-the-soft-one-is-met"),
        pytest.param({Signal.MEMORY: left("99Mi")}, EVERY, id="short-already"),
        pytest.param({Signal.MEMORY: left("1Gi"), Signal.NODE_FS: left("101Mi")}, EVERY, id="a-disk-is-no-memory"),
        pytest.param(
            {Signal.MEMORY: left("1Gi"), Signal.ALLOCATABLE_MEMORY: left("228Mi")},
            timedelta(seconds=2),
            id="of-the-pods",
        ),
    ],
)
def test_when_the_next_round_is(observed: Observations, wait: timedelta) -> None:
    """As long as memory lasts if pods fill it at 64 MiB a second, so that a threshold is not noticed 10 s late."""
    thresholds = (HARD, SOFT, DISK, threshold(Signal.ALLOCATABLE_MEMORY, "100Mi"))
    assert until_next_round(thresholds, observed) == wait


def test_at_which_usage_the_kernel_notifies() -> None:
    """Capacity less the threshold, and the files that are not in the working set; a share is one of the capacity."""
    reading = NodeReading(
        memory=MemoryReading(600, 400, usage=500), pods_memory=MemoryReading(50, 50, usage=50), tasks=None
    )
    thresholds = (
        threshold(Signal.MEMORY, "100"),
        threshold(Signal.MEMORY, "10%", 60),
        threshold(Signal.ALLOCATABLE_MEMORY, "30"),
        DISK,
    )
    assert usages_to_hear_of(thresholds, reading) == {Signal.MEMORY: (1000, 1000), Signal.ALLOCATABLE_MEMORY: (70,)}
    assert usages_to_hear_of(thresholds, NodeReading(memory=MemoryReading(600, 400))) == {}
