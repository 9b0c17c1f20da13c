"""Which pods does a node reject because of those that it already has, and with the kubelet's message?

Rows after pkg/kubelet/lifecycle/predicate_test.go and the scheduler's node affinity and port tests.
"""

from typing import Any

import pytest

from proto.kubernetes.resources.quantity import parse_quantity
from proto.temporal.pod_inputs import Rejected
from tests.workflows.decide.situations import container, pod
from workflows.decide.eviction.preemption import Lack, Reason, first_reason
from workflows.decide.manifest.fields.supported_cluster import unsupported_fields
from workflows.decide.node.node_admission import HostPort, NodeFacts, footprint, may_be_outdated, reasons_against
from workflows.decide.tolerations import tolerates

AMOUNTS = {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "10Gi", "pods": "3", "example.com/disk": "1"}
NODE = NodeFacts(
    "n1",
    labels={"zone": "a", "cores": "8", "odd": "many"},
    allocatable={name: parse_quantity(amount) for name, amount in AMOUNTS.items()},
)
AFFINITY = Rejected("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")
PORTS = Rejected("NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports")
TAINTS = Rejected(
    "TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
)


def asking(**requests: str) -> dict[str, Any]:
    """Build a pod with these requests; underscores in names stand for dashes."""
    named = {name.replace("_", "-"): amount for name, amount in requests.items()}
    return pod() | {"spec": {"containers": [container("web", resources={"requests": named})]}}


def asking_for(name: str, amount: str) -> dict[str, Any]:
    """Build a pod that requests an extended resource."""
    return pod() | {"spec": {"containers": [container("web", resources={"requests": {name: amount}})]}}


def with_port(port: int, address: str = "", protocol: str = "TCP", *, sidecar: bool = False) -> dict[str, Any]:
    """Build a pod with a host port."""
    ports = [{"containerPort": 80, "hostPort": port, "hostIP": address, "protocol": protocol}]
    if sidecar:
        init = [container("side", ports=ports, restartPolicy="Always")]
        return pod() | {"spec": {"containers": [container("web")], "initContainers": init}}
    return pod() | {"spec": {"containers": [container("web", ports=ports)]}}


@pytest.mark.parametrize(
    ("asked", "others", "why"),
    [
        pytest.param(pod(), [], [], id="asks-for-nothing"),
        pytest.param(asking(cpu="2", memory="1Gi"), [], [], id="all-there-is"),
        pytest.param(asking(cpu="2001m"), [], [Lack("cpu", 2001, 0, 2000)], id="more-cpu-than-there-is"),
        pytest.param(
            asking(cpu="1"), [asking(cpu="1500m")], [Lack("cpu", 1000, 1500, 2000)], id="cpu-that-others-hold"
        ),
        pytest.param(
            asking(memory="1Gi"), [asking(memory="1")], [Lack("memory", 2**30, 1, 2**30)], id="memory-that-others-hold"
        ),
        pytest.param(
            asking(ephemeral_storage="11Gi"), [], [Lack("ephemeral-storage", 11 * 2**30, 0, 10 * 2**30)], id="storage"
        ),
        pytest.param(
            asking(cpu="3", memory="2Gi"),
            [],
            [Lack("cpu", 3000, 0, 2000), Lack("memory", 2**31, 0, 2**30)],
            id="of-two-lacks-cpu-is-told-first",
        ),
        pytest.param(pod(), [pod()] * 3, [Lack("pods", 1, 3, 3)], id="one-pod-too-many"),
        pytest.param(
            asking(cpu="9"),
            [pod()] * 3,
            [Lack("pods", 1, 3, 3), Lack("cpu", 9000, 0, 2000)],
            id="too-many-pods-is-told-before-cpu",
        ),
        pytest.param(asking_for("example.com/disk", "1"), [], [], id="an-extended-resource-that-is-there"),
        pytest.param(
            asking_for("example.com/disk", "1"),
            [asking_for("example.com/disk", "1")],
            [Lack("example.com/disk", 1, 1, 1)],
            id="an-extended-resource-that-another-holds",
        ),
        pytest.param(asking_for("example.com/other", "1"), [], [], id="an-extended-resource-of-the-cluster"),
        pytest.param(asking_for("hugepages-2Mi", "2Mi"), [], [Lack("hugepages-2Mi", 2**21, 0, 0)], id="huge-pages"),
        pytest.param(pod(overhead={"cpu": "3"}), [], [Lack("cpu", 3000, 0, 2000)], id="overhead-counts"),
        pytest.param(with_port(80), [with_port(81)], [], id="another-port"),
        pytest.param(with_port(80), [with_port(80)], [PORTS], id="the-same-port"),
        pytest.param(with_port(80, protocol="UDP"), [with_port(80)], [], id="another-protocol"),
        pytest.param(with_port(80, "10.0.0.1"), [with_port(80, "10.0.0.2")], [], id="another-address"),
        pytest.param(with_port(80, "10.0.0.1"), [with_port(80)], [PORTS], id="every-address-is-taken"),
        pytest.param(with_port(80), [with_port(80, "10.0.0.2")], [PORTS], id="every-address-is-asked-for"),
        pytest.param(with_port(80, sidecar=True), [with_port(80)], [PORTS], id="a-sidecar's-port"),
        pytest.param(pod(nodeSelector={"zone": "a"}), [], [], id="a-selector-that-matches"),
        pytest.param(pod(nodeSelector={"zone": "b"}), [], [AFFINITY], id="a-selector-that-does-not"),
        pytest.param(asking(cpu="9", memory="1"), [], [Lack("cpu", 9000, 0, 2000)], id="only-what-lacks"),
        pytest.param(
            with_port(80) | {"spec": {**with_port(80)["spec"], "nodeSelector": {"zone": "b"}}},
            [with_port(80)] * 3,
            [Lack("pods", 1, 3, 3), AFFINITY, PORTS],
            id="resources-then-affinity-then-ports",
        ),
    ],
)
def test_what_is_refused(asked: dict[str, Any], others: list[dict[str, Any]], why: list[Reason]) -> None:
    """Each row is a pod, the node's admitted pods, and all reasons in their order."""
    assert reasons_against(asked, NODE, [footprint(one) for one in others]) == tuple(why)


def test_a_node_of_which_nothing_is_known_refuses_nothing_for_it() -> None:
    """It has not registered yet, and a static pod need not wait."""
    assert reasons_against(asking(cpu="900"), NodeFacts("n1"), []) == ()


def term(
    *expressions: tuple[str, str, list[str]], fields: tuple[tuple[str, str, list[str]], ...] = ()
) -> dict[str, Any]:
    """Build a nodeSelectorTerm."""

    def written(all_of: tuple[tuple[str, str, list[str]], ...]) -> list[dict[str, Any]]:
        return [{"key": key, "operator": operator, "values": values} for key, operator, values in all_of]

    return {"matchExpressions": written(expressions), "matchFields": written(fields)}


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        pytest.param([term(("zone", "In", ["a", "b"]))], True, id="in"),
        pytest.param([term(("zone", "In", ["b"]))], False, id="not-in"),
        pytest.param([term(("zone", "NotIn", ["b"]))], True, id="another-value"),
        pytest.param([term(("none", "NotIn", ["b"]))], True, id="an-absent-label-is-not-in"),
        pytest.param([term(("zone", "Exists", []))], True, id="exists"),
        pytest.param([term(("zone", "DoesNotExist", []))], False, id="does-not-exist"),
        pytest.param([term(("cores", "Gt", ["7"]))], True, id="greater"),
        pytest.param([term(("cores", "Gt", ["8"]))], False, id="not-greater"),
        pytest.param([term(("cores", "Lt", ["9"]))], True, id="less"),
        pytest.param([term(("odd", "Lt", ["9"]))], False, id="no-number-is-not-less"),
        pytest.param([term(("none", "Gt", ["1"]))], False, id="an-absent-label-is-not-greater"),
        pytest.param([term(("zone", "In", ["a"]), ("cores", "In", ["4"]))], False, id="all-of-a-term-must-hold"),
        pytest.param([term(("zone", "In", ["b"])), term(("cores", "In", ["8"]))], True, id="one-term-is-enough"),
        pytest.param([term()], False, id="an-empty-term-matches-no-node"),
        pytest.param([], False, id="no-term-matches-no-node"),
        pytest.param([term(fields=(("metadata.name", "In", ["n1"]),))], True, id="by-the-node's-name"),
        pytest.param([term(fields=(("metadata.name", "In", ["n2"]),))], False, id="by-another-name"),
    ],
)
def test_node_affinity(terms: list[dict[str, Any]], *, matches: bool) -> None:
    """The required terms of an affinity for this node."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = reasons_against(pod(affinity={"nodeAffinity": required}), NODE, [])
    assert found == (() if matches else (AFFINITY,))


@pytest.mark.parametrize(
    ("toleration", "stands"),
    [
        pytest.param({"operator": "Exists"}, True, id="everything"),
        pytest.param({"key": "k", "operator": "Exists"}, True, id="the-key"),
        pytest.param({"key": "k", "value": "v"}, True, id="key-and-value"),
        pytest.param({"key": "k", "value": "w"}, False, id="another-value"),
        pytest.param({"key": "l", "operator": "Exists"}, False, id="another-key"),
        pytest.param({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, False, id="another-effect"),
    ],
)
def test_tolerations(toleration: dict[str, str], *, stands: bool) -> None:
    """Against the taint k=v:NoExecute."""
    taint = {"key": "k", "value": "v", "effect": "NoExecute"}
    assert tolerates([toleration], taint) is stands
    tainted = NodeFacts("n1", taints=(taint,))
    assert reasons_against(pod(tolerations=[toleration]), tainted, []) == (() if stands else (TAINTS,))


def test_static_pods_and_taints_that_only_keep_pods_away() -> None:
    """The node checks neither."""
    tainted = NodeFacts("n1", taints=({"key": "k", "effect": "NoExecute"},))
    assert reasons_against(pod(), tainted, [], static=True) == ()
    assert reasons_against(pod(), NodeFacts("n1", taints=({"key": "k", "effect": "NoSchedule"},)), []) == ()


@pytest.mark.parametrize(
    ("reasons", "outdated"),
    [
        pytest.param([], False, id="none"),
        pytest.param([AFFINITY], True, id="labels-alone"),
        pytest.param([AFFINITY, PORTS], False, id="ports-too"),
        pytest.param([Lack("cpu", 1, 1, 1)], False, id="a-lack"),
    ],
)
def test_when_the_node_is_read_again(reasons: list[Reason], *, outdated: bool) -> None:
    """As predicateAdmitHandler.generalFilter."""
    assert may_be_outdated(reasons) is outdated


@pytest.mark.parametrize(
    ("reasons", "critical", "shown"),
    [
        pytest.param([], False, None, id="none"),
        pytest.param(
            [Lack("cpu", 5, 6, 7), AFFINITY],
            False,
            Rejected("OutOfcpu", "Node didn't have enough resource: cpu, requested: 5, used: 6, capacity: 7"),
            id="the-first",
        ),
        pytest.param(
            [Lack("cpu", 5, 6, 7), AFFINITY, PORTS], True, AFFINITY, id="of-a-critical-pod-the-first-that-is-no-lack"
        ),
        pytest.param(
            [Lack("a.b/c", 5, 6, 7)],
            True,
            Rejected("OutOfa.b/c", "Node didn't have enough resource: a.b/c, requested: 5, used: 6, capacity: 7"),
            id="a-critical-pod-that-only-lacks",
        ),
    ],
)
def test_which_reason_is_shown(reasons: list[Reason], critical: bool, shown: Rejected | None) -> None:
    """As predicateAdmitHandler.Admit and HandleAdmissionFailure."""
    assert first_reason(reasons, critical=critical) == shown


def test_ports_of_init_containers_that_end_are_nobodys() -> None:
    """Only sidecars and regular containers keep a port."""
    ending = pod() | {"spec": {"containers": [], "initContainers": [container("i", ports=[{"hostPort": 80}])]}}
    assert footprint(ending).ports == ()
    assert footprint(with_port(80)).ports == (HostPort("0.0.0.0", "TCP", 80),)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        pytest.param({}, [], id="an-ordinary-pod"),
        pytest.param(
            {
                "serviceAccountName": "default",
                "automountServiceAccountToken": True,
                "affinity": {"podAffinity": {}},
                "topologySpreadConstraints": [{"maxSkew": 1}],
                "preemptionPolicy": "PreemptLowerPriority",
                "priority": 0,
                "schedulerName": "default-scheduler",
                "volumes": [
                    {
                        "name": "token",
                        "projected": {
                            "sources": [
                                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                                {"clusterTrustBundle": {"name": "x", "path": "y"}},
                            ]
                        },
                    }
                ],
            },
            [],
            id="what-makes-sense-in-a-cluster-only",
        ),
        pytest.param({"fromANewerServer": {"a": 1}}, [], id="what-nobody-here-knows-is-passed-over"),
        pytest.param(
            {
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
                "containers": [container("web", resources={"claims": [{"name": "gpu", "request": "r"}]})],
            },
            [],
            id="claims",
        ),
        pytest.param({"volumes": [{"name": "v", "flexVolume": {}}]}, ["spec.volumes[0].flexVolume"], id="a-volume"),
        pytest.param({"securityContext": {"seLinuxChangePolicy": "MountOption"}}, [], id="labels-by-a-mount-option"),
        pytest.param(
            {"securityContext": {"windowsOptions": {}}}, ["spec.securityContext.windowsOptions"], id="another-system"
        ),
    ],
)
def test_what_of_an_api_pod_cannot_be_run(spec: dict[str, Any], named: list[str]) -> None:
    """The message starts with the field."""
    assert [one.partition(":")[0] for one in unsupported_fields(pod(**spec))] == named
