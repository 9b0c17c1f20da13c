"""Which CPUs does a container have to itself, and who has them after it?"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.decide.cpus.machines import machine
from workflows.decide.cpus.cpu_sets import NONE, parse_cpus, written_cpus
from workflows.decide.cpus.hints import container_hints, pod_hints
from workflows.decide.cpus.options import (
    Gates,
    OptionError,
    Options,
    advice,
    option_faults,
    parse_options,
    why_not_here,
)
from workflows.decide.cpus.packed import CpusError
from workflows.decide.cpus.requests import ContainerRequest, PodRequest, pod_request
from workflows.decide.cpus.state_file import STATIC, read_state, written_state
from workflows.decide.cpus.static_policy import (
    Assignments,
    SmtAlignmentError,
    StateError,
    allocate,
    begun,
    released,
    static_policy,
)
from workflows.decide.topology.hints import Hint

ALL = Gates(alpha=True)
POLICY = static_policy(machine(), Options(), 1)
"""CPUs 0 to 7, of which 0 is reserved."""


@pytest.mark.parametrize(
    ("given_options", "gates", "why"),
    [
        ({"x": "true"}, ALL, 'unknown CPU Manager Policy option: "x"'),
        (
            {"align-by-socket": "true"},
            Gates(),
            'CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided',
        ),
        (
            {"distribute-cpus-across-numa": "true"},
            Gates(beta=False),
            'CPU Manager Policy Beta-level Options not enabled, but option "distribute-cpus-across-numa" provided',
        ),
        (
            {"full-pcpus-only": "yes"},
            ALL,
            'bad value for option "full-pcpus-only": strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        *(
            (
                {one: "true", other: "1"},
                ALL,
                f"static policy options {one} and {other} can not be used at the same time",
            )
            for one, other in (
                ("full-pcpus-only", "distribute-cpus-across-cores"),
                ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
                ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
                ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
            )
        ),
    ],
)
def test_wrong_options(given_options: dict[str, str], gates: Gates, why: str) -> None:
    """In the kubelet's words."""
    assert list(option_faults(given_options, gates)) == [why]
    with pytest.raises(OptionError):
        parse_options(given_options, gates)


@pytest.mark.parametrize(
    ("given_options", "gates", "words"),
    [
        ({}, ALL, ""),
        ({"full-pcpus-only": "true", "distribute-cpus-across-cores": "true"}, ALL, ""),
        (
            {"full-pcpus-only": "true", "x": "true"},
            ALL,
            (
                "the options are full-pcpus-only, prefer-align-cpus-by-uncorecache, strict-cpu-reservation, with the feature gate "
                "CPUManagerPolicyBetaOptions distribute-cpus-across-numa, and with CPUManagerPolicyAlphaOptions align-by-socket, "
                "distribute-cpus-across-cores"
            ),
        ),
        (
            {"align-by-socket": "true"},
            Gates(),
            "set the feature gate CPUManagerPolicyAlphaOptions to true, or remove the option",
        ),
        (
            {"distribute-cpus-across-numa": "true"},
            Gates(beta=False),
            "set the feature gate CPUManagerPolicyBetaOptions to true, or remove the option",
        ),
        ({"align-by-socket": "yes"}, ALL, "the value must be true or false"),
    ],
)
def test_advice(given_options: dict[str, str], gates: Gates, words: str) -> None:
    """What to do, beside the kubelet's words."""
    assert advice(given_options, gates) == words


def test_options() -> None:
    """A pair excludes each other only if both are on."""
    found = parse_options({"full-pcpus-only": "true", "distribute-cpus-across-cores": "false"}, ALL)
    assert found == Options(full_cores=True)


def test_align_by_socket_needs_a_suitable_machine() -> None:
    """And no policy of the topology manager that contradicts it."""
    options = Options(align_by_socket=True)
    assert why_not_here(options, machine(sockets=2), "best-effort") == ""
    assert "single-numa-node policy is incompatible" in why_not_here(options, machine(), "single-numa-node")


def pod(*containers: ContainerRequest) -> PodRequest:
    """Make a pod."""
    return PodRequest("uid", containers)


def test_cpus_are_reserved_and_given() -> None:
    """The reserved one stays shared, and its core is not given as a whole."""
    known = begun(POLICY, Assignments())
    assert written_cpus(POLICY.reserved) == "0"
    assert written_cpus(POLICY.reserved_cores) == "0,4"
    known = allocate(POLICY, known, pod(ContainerRequest("a", 2)), "a")
    assert written_cpus(known.of("uid", "a") or NONE) == "1,5"
    assert written_cpus(known.shared) == "0,2-4,6-7"
    assert released(known, "uid", "a").shared == parse_cpus("0-7")


def test_app_containers_have_what_init_containers_had() -> None:
    """A sidecar's CPUs stay its own."""
    asked = pod(
        ContainerRequest("side", 2, is_sidecar=True), ContainerRequest("init", 4, ends=True), ContainerRequest("app", 4)
    )
    known = begun(POLICY, Assignments())
    for name in ("side", "init", "app"):
        known = allocate(POLICY, known, asked, name)
    assert known.of("uid", "app") == known.of("uid", "init")
    assert not (known.of("uid", "app") or NONE) & (known.of("uid", "side") or NONE)
    assert known.of_pod("uid").isdisjoint(released(known, "uid", "init").shared)
    assert asked.cpus == 6


def test_parts_of_cores_are_refused() -> None:
    """In the kubelet's words."""
    policy = static_policy(machine(), Options(full_cores=True), 1)
    known = begun(policy, Assignments())
    with pytest.raises(SmtAlignmentError, match="SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"):
        allocate(policy, known, pod(ContainerRequest("a", 3)), "a")
    words = "not enough free physical CPUs: available physical CPUs = 6, requested CPUs = 8, CPUs per core = 2"
    with pytest.raises(SmtAlignmentError, match=words):
        allocate(policy, known, pod(ContainerRequest("a", 8)), "a")


@pytest.mark.parametrize(
    ("shared", "has", "strict", "why"),
    [
        ("", "1", False, "default cpuset cannot be empty"),
        ("1-7", "", False, 'not all reserved cpus: "0" are present in defaultCpuSet: "1-7"'),
        ("0-7", "", True, 'some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-7"'),
        ("0-7", "1", False, 'pod: u, container: c cpuset: "1" overlaps with default cpuset "0-7"'),
        ("0-6", "", False, 'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-6"'),
    ],
)
def test_a_state_of_another_machine_is_refused(shared: str, has: str, strict: bool, why: str) -> None:
    """In the kubelet's words."""
    policy = static_policy(machine(), Options(strict_reservation=strict), 1)
    containers = {"u": {"c": parse_cpus(has)}} if has else {}
    with pytest.raises(StateError) as found:
        begun(policy, Assignments(parse_cpus(shared), containers))
    assert str(found.value) == why


def test_a_reservation_that_cannot_be() -> None:
    """In the kubelet's words."""
    with pytest.raises(CpusError, match=r"unable to reserve the required amount of CPUs \(size of  did not equal 9\)"):
        static_policy(machine(), Options(), 9)
    with pytest.raises(CpusError, match="unknown CPU ID: 99"):
        static_policy(machine(), Options(), 1, frozenset({99}))


def test_hints() -> None:
    """One NUMA node is preferred if it could have enough."""
    policy = static_policy(machine(sockets=2), Options(), 1)
    known = begun(policy, Assignments())
    asked = pod(ContainerRequest("a", 8), ContainerRequest("b", 0))
    expected = (Hint((1,), preferred=True), Hint((0, 1), preferred=False))
    assert container_hints(policy, known, asked, "a") == expected == pod_hints(policy, known, asked)
    assert container_hints(policy, known, asked, "b") is None
    known = allocate(policy, known, asked, "a", affinity=(1,))
    assert container_hints(policy, known, asked, "a") == expected
    assert container_hints(policy, known, pod(ContainerRequest("a", 4)), "a") == ()


GUARANTEED = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
HALF = {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"cpu": "1500m", "memory": "1Gi"}}


@pytest.mark.parametrize(
    ("resources", "own", "cpus"),
    [
        pytest.param(GUARANTEED, None, 2, id="whole-cpus"),
        pytest.param(HALF, None, 0, id="a-part"),
        pytest.param({"requests": {"cpu": "2"}}, None, 0, id="burstable"),
        pytest.param(GUARANTEED, GUARANTEED, 0, id="resources-of-the-pod"),
    ],
)
def test_what_a_container_asks_for(resources: dict[str, Any], own: dict[str, Any] | None, cpus: int) -> None:
    """Whole CPUs of a guaranteed pod."""
    spec: dict[str, Any] = {"containers": [{"name": "a", "resources": resources}]}
    if own:
        spec["resources"] = own
    assert pod_request({"metadata": {"uid": "u"}, "spec": spec}).named("a").cpus == cpus


def test_a_state_file_of_the_kubelet_is_read() -> None:
    """And refused after a change, or for another policy."""
    known = Assignments(parse_cpus("0,2-3"), {"u": {"c": parse_cpus("1")}})
    text = written_state(STATIC, known)
    assert read_state(STATIC, text) == known
    with pytest.raises(StateError, match="checkpoint is corrupted"):
        read_state(STATIC, text.replace('"1"', '"2"'))
    with pytest.raises(StateError, match="checkpoint is corrupted"):
        read_state(STATIC, text.replace('"u"', '"\\ud800"'))  # no text in UTF-8
    with pytest.raises(StateError, match='configured policy "none" differs from state checkpoint policy "static"'):
        read_state("none", text)
    with pytest.raises(StateError, match="no content"):
        read_state(STATIC, "[]")


@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 5), st.booleans()), max_size=20),
    options=st.sampled_from(
        [Options(), Options(across_nodes=True), Options(full_cores=True), Options(align_by_cache=True)]
    ),
    reserved=st.integers(1, 3),
)
def test_no_cpu_is_given_twice(steps: list[tuple[int, int, int, bool]], options: Options, reserved: int) -> None:
    """Nor a reserved one, and no more than asked; none is lost."""
    here = machine(sockets=2)
    policy = static_policy(here, options, reserved)
    known = begun(policy, Assignments())
    for number, container, cpus, gives in steps:
        asked = PodRequest(f"pod-{number}", (ContainerRequest(f"c{container}", cpus),))
        name = asked.containers[0].name
        if gives:
            try:
                known = allocate(policy, known, asked, name)
            except CpusError:
                continue
        else:
            known = released(known, asked.uid, name)
        given_out = [has for containers in known.containers.values() for has in containers.values()]
        assert sum(map(len, given_out)) + len(known.shared) == len(here.places)
        assert known.shared.union(*given_out) == here.places.cpus
        assert policy.reserved <= known.shared
        assert all(len(has) <= 5 for has in given_out)
