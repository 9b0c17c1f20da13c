"""In which words is a pod evicted?"""

from typing import Any

import pytest

from proto.temporal.eviction.candidates import Candidate
from proto.temporal.eviction.readings import ContainerUse, FileUse, Observation, PodUse
from proto.temporal.eviction.thresholds import Signal, Threshold
from tests.workflows.decide.eviction.pressed_pods import MI, container, named, of_spec, threshold, uses
from workflows.decide.eviction.messages import attempting, eviction_annotations, eviction_message

LOW = "The node was low on resource: "
MEMORY = threshold(Signal.MEMORY, "100Mi")
FOUND = Observation(50 * MI, 1000 * MI)
HALF = f"{LOW}memory. Threshold quantity: 100Mi, available: 50Mi. "
TWO: dict[str, Any] = {
    "containers": [container("a", memory="1Mi"), container("b")],
    "initContainers": [container("i", memory="1Mi")],
}


def used(**memory: int) -> PodUse:
    """Build what the containers of a pod use."""
    return PodUse(sum(memory.values()), containers=tuple(ContainerUse(name, size) for name, size in memory.items()))


@pytest.mark.parametrize(
    ("met", "found", "expected"),
    [
        pytest.param(MEMORY, FOUND, HALF, id="memory"),
        pytest.param(
            threshold(Signal.ALLOCATABLE_MEMORY, "10%"),
            Observation(1000, 999),
            f"{LOW}memory. Threshold quantity: 99, available: 1k. ",
            id="a-share-and-less-than-1024-bytes",
        ),
        pytest.param(
            threshold(Signal.NODE_FS, "5k"),
            Observation(3000, 4000),
            f"{LOW}ephemeral-storage. Threshold quantity: 5k, available: 3000. ",
            id="bytes-that-no-binary-suffix-divides",
        ),
        pytest.param(
            threshold(Signal.NODE_FS_INODES, "50%"),
            Observation(2048, 4096),
            f"{LOW}inodes. Threshold quantity: 2Ki, available: 2048. ",
            id="a-share-of-inodes-in-binary",
        ),
        pytest.param(
            threshold(Signal.PIDS, "1k"),
            Observation(-5, 32768),
            f"{LOW}pids. Threshold quantity: 1k, available: -5. ",
            id="more-processes-than-there-may-be",
        ),
        pytest.param(
            threshold(Signal.IMAGE_FS, "1Gi"),
            Observation(1536 * MI, 2048 * MI),
            f"{LOW}ephemeral-storage. Threshold quantity: 1Gi, available: 1536Mi. ",
            id="storage",
        ),
    ],
)
def test_the_node(met: Threshold, found: Observation, expected: str) -> None:
    """The first two sentences, which are all for a pod without statistics."""
    assert eviction_message(met, found, named("p"), None) == expected
    assert eviction_annotations("memory", named("p"), None) == {}


@pytest.mark.parametrize(
    ("pod", "use", "sentences", "annotations"),
    [
        pytest.param(
            of_spec("p", TWO),
            used(b=5 * MI, a=MI, i=2 * MI),
            "Container b was using 5Mi, request is 0, has larger consumption of memory. "
            "Container i was using 2Mi, request is 1Mi, has larger consumption of memory. ",
            {"offending_containers": "b,i", "offending_containers_usage": "5Mi,2Mi"},
            id="containers-above-their-requests-in-the-order-of-the-statistics",
        ),
        pytest.param(
            of_spec("p", TWO),
            used(debugger=9 * MI),
            "",
            {"offending_containers": "", "offending_containers_usage": ""},
            id="an-ephemeral-container-is-not-named",
        ),
        pytest.param(
            of_spec("p", {**TWO, "resources": {"requests": {"memory": "8Mi"}}}),
            used(a=2 * MI),
            "Pod p was using 2Mi, request is 8Mi, has larger consumption of memory. "
            "Container a was using 2Mi, request is 1Mi, has larger consumption of memory. ",
            {
                "offending_pod": "p",
                "offending_pod_usage": "2Mi",
                "offending_containers": "a",
                "offending_containers_usage": "2Mi",
            },
            id="a-request-of-the-pods-own-is-named-whatever-it-uses",
        ),
    ],
)
def test_the_pod(pod: Candidate, use: PodUse, sentences: str, annotations: dict[str, str]) -> None:
    """What uses more than it requests."""
    assert eviction_message(MEMORY, FOUND, pod, use) == HALF + sentences
    assert eviction_annotations("memory", pod, use) == {**annotations, "starved_resource": "memory"}


def test_writable_layer_and_logs_together() -> None:
    """Storage is both; a container of which one is unknown is not named."""
    pod = of_spec("p", {"containers": [container("a", ephemeral_storage="3Mi"), container("b")]})
    known = ContainerUse("a", None, FileUse(2 * MI), FileUse(2 * MI))
    use = PodUse(containers=(known, ContainerUse("b", None, FileUse(9 * MI))))
    met = threshold(Signal.NODE_FS, "1Gi")
    said = eviction_message(met, Observation(MI, MI), pod, use)
    assert said.endswith("Container a was using 4Mi, request is 3Mi, has larger consumption of ephemeral-storage. ")
    assert "Container b" not in said


def test_containers_are_not_named_for_process_ids() -> None:
    """Nothing says how many each may have."""
    assert eviction_annotations("pids", named("p"), uses(processes=900))["offending_containers"] == ""


def test_the_event_about_the_node() -> None:
    """As synchronize records it."""
    assert attempting("memory") == "Attempting to reclaim memory"
