"""Is a pod refused exactly when the API's ValidatePodCreate refuses it, with the same message?

The rows are the kubelet's cases for the supported fields; every message was compared with that of Kubernetes 1.36.3, as were
those of twenty thousand random pods. Our own wording is marked.
"""

import pytest

from tests.workflows.decide.pods import LABEL_RULE, NAME_PART_RULE, SUBDOMAIN_RULE, VALUE_RULE, Pod, pod
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.validation.pod import validate_pod

METADATA_ROWS = [
    pytest.param(pod({"name": ""}), ["metadata.name: Required value"], id="no-name"),
    pytest.param(
        pod({"name": "Web"}), [f'metadata.name: Invalid value: "Web": {SUBDOMAIN_RULE}'], id="capital-in-name"
    ),
    pytest.param(pod({"name": "a.b-1"}), [], id="dots-in-a-pod-name"),
    pytest.param(
        pod({"name": "a" * 254}),
        [f'metadata.name: Invalid value: "{"a" * 120}…": must be no more than 253 characters'],
        id="name-too-long",
    ),
    pytest.param(
        pod({"namespace": "a.b"}),
        ['metadata.namespace: Invalid value: "a.b": must not contain dots'],
        id="dots-in-a-namespace",
    ),
    pytest.param(
        pod({"namespace": "-"}), [f'metadata.namespace: Invalid value: "-": {LABEL_RULE}'], id="namespace-of-a-dash"
    ),
    pytest.param(pod({"generation": 7}), [], id="a-generation"),
    pytest.param(
        pod({"generation": -1}),
        ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
        id="a-generation-below-zero",
    ),
    pytest.param(pod({"namespace": ""}), ["metadata.namespace: Required value"], id="no-namespace"),
    pytest.param(
        pod({"uid": "../../etc"}),
        [
            (
                "metadata.uid: Invalid value: \"../../etc\": must be at most 128 letters, digits, '-', '_' and '.',"
                " because it names folders"
            )  # ours
        ],
        id="uid-that-climbs",
    ),
    pytest.param(pod({"uid": "0af3-9_X.y"}), [], id="uid-of-any-plain-word"),
    pytest.param(
        pod({"labels": {"a b": "x"}}), [f'metadata.labels: Invalid value: "a b": {NAME_PART_RULE}'], id="space-in-label"
    ),
    pytest.param(
        pod({"labels": {"/x": "x"}}),
        ['metadata.labels: Invalid value: "/x": prefix part must be non-empty'],
        id="label-without-prefix",
    ),
    pytest.param(
        pod({"labels": {"Ex.com/x": ""}}),
        [f'metadata.labels: Invalid value: "Ex.com/x": prefix part {SUBDOMAIN_RULE}'],
        id="label-prefix-is-no-domain",
    ),
    pytest.param(
        pod({"labels": {"x": "-"}}), [f'metadata.labels: Invalid value: "-": {VALUE_RULE}'], id="label-value-of-a-dash"
    ),
    pytest.param(
        pod({"labels": {"x": "a" * 64}}),
        [f'metadata.labels: Invalid value: "{"a" * 64}": must be no more than 63 bytes'],
        id="label-value-too-long",
    ),
    pytest.param(pod({"annotations": {"Ex.com/X": "any thing\n"}}), [], id="annotation-keys-ignore-case"),
    pytest.param(
        pod({"annotations": {"a/b/c": "x"}}),
        [
            (
                f'metadata.annotations: Invalid value: "a/b/c": a valid label key {NAME_PART_RULE.removeprefix("name part ")}'
                " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )
        ],
        id="annotation-with-two-slashes",
    ),
    pytest.param(
        pod({"annotations": {"a": "x" * 262144}}),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        id="annotations-too-large",
    ),
]
SPEC_ROWS = [
    pytest.param(
        pod(restartPolicy="always"),
        ['spec.restartPolicy: Unsupported value: "always": supported values: "Always", "OnFailure", "Never"'],
        id="restart-policy",
    ),
    pytest.param(
        pod(dnsPolicy="x"),
        [
            (
                'spec.dnsPolicy: Unsupported value: "x": supported values: "ClusterFirstWithHostNet", "ClusterFirst",'
                ' "Default", "None"'
            )
        ],
        id="dns-policy",
    ),
    pytest.param(
        pod(preemptionPolicy="x"),
        ['spec.preemptionPolicy: Unsupported value: "x": supported values: "PreemptLowerPriority", "Never"'],
        id="preemption-policy",
    ),
    pytest.param(pod(preemptionPolicy=""), ["spec.preemptionPolicy: Required value"], id="empty-preemption-policy"),
    pytest.param(
        pod(terminationGracePeriodSeconds=-1),
        ["spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0"],  # ours
        id="negative-grace",
    ),
    pytest.param(
        pod(terminationGracePeriodSeconds=2**31),
        [
            "spec.terminationGracePeriodSeconds: Invalid value: 2147483648: must be less than or equal to 2147483647"
        ],  # ours
        id="endless-grace",
    ),
    pytest.param(pod(terminationGracePeriodSeconds=0), [], id="no-grace"),
    pytest.param(pod(activeDeadlineSeconds=1), [], id="the-shortest-deadline"),
    pytest.param(pod(activeDeadlineSeconds=2**31 - 1), [], id="the-longest-deadline"),
    *(
        pytest.param(
            pod(activeDeadlineSeconds=seconds),
            [f"spec.activeDeadlineSeconds: Invalid value: {seconds}: must be between 1 and 2147483647, inclusive"],
            id=f"a-deadline-of-{seconds}",
        )
        for seconds in (0, -1, 2**31)
    ),
    pytest.param(pod(hostname="a.b"), ['spec.hostname: Invalid value: "a.b": must not contain dots'], id="hostname"),
    pytest.param(pod(nodeName="N"), [f'spec.nodeName: Invalid value: "N": {SUBDOMAIN_RULE}'], id="node-name"),
    pytest.param(
        pod(priorityClassName="N"),
        [f'spec.priorityClassName: Invalid value: "N": {SUBDOMAIN_RULE}'],
        id="priority-class",
    ),
    pytest.param(
        pod(nodeSelector={"a": "b b"}), [f'spec.nodeSelector: Invalid value: "b b": {VALUE_RULE}'], id="node-selector"
    ),
]
TOLERATION_ROWS = [
    pytest.param(
        pod(tolerations=[{"operator": "Equal"}]),
        [
            (
                'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means'
                ' "match all values and all keys"'
            )
        ],
        id="toleration-of-everything-must-say-exists",
    ),
    pytest.param(
        pod(tolerations=[{"key": "a", "tolerationSeconds": 5}]),
        ["spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
        id="toleration-seconds-without-no-execute",
    ),
    pytest.param(
        pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        ["spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"],
        id="exists-with-a-value",
    ),
    pytest.param(
        pod(tolerations=[{"key": "a", "operator": "In", "effect": "x"}]),
        [
            'spec.tolerations[0].operator: Unsupported value: "In": supported values: "Equal", "Exists"',
            (
                'spec.tolerations[0].effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule",'
                ' "NoExecute"'
            ),
        ],
        id="unknown-operator-and-effect",
    ),
    pytest.param(
        pod(tolerations=[{"operator": "Exists"}, {"key": "a", "effect": "NoExecute", "tolerationSeconds": -1}]),
        [],
        id="tolerations-that-are-fine",
    ),
]
GATE_ROWS = [
    pytest.param(
        pod(readinessGates=[{"conditionType": "example.com/lb"}, {"conditionType": "gate1"}]),
        [],
        id="gates-that-are-fine",
    ),
    pytest.param(
        pod(readinessGates=[{"conditionType": "gate1"}, {"conditionType": "not a gate"}]),
        [f'spec.readinessGates[1].conditionType: Invalid value: "not a gate": {NAME_PART_RULE}'],
        id="a-gate-that-is-no-qualified-name",
    ),
    pytest.param(
        pod(readinessGates=[{}]),
        [
            'spec.readinessGates[0].conditionType: Invalid value: "": name part must be non-empty',
            f'spec.readinessGates[0].conditionType: Invalid value: "": {NAME_PART_RULE}',
        ],
        id="a-gate-of-nothing",
    ),
]


@pytest.mark.parametrize(("given_pod", "faults"), [*METADATA_ROWS, *SPEC_ROWS, *TOLERATION_ROWS, *GATE_ROWS])
def test_rules(given_pod: Pod, faults: list[str]) -> None:
    """Every error, with the API's message, and no other."""
    assert list(validate_pod(default_pod(given_pod))) == faults
