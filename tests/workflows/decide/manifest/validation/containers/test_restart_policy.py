"""Is a container's own restartPolicy refused exactly when the API refuses it, with the same message?"""

from typing import Any

import pytest

from tests.workflows.decide.pods import Pod, container, pod
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.validation.pod import validate_pod

C0, I0 = "spec.containers[0]", "spec.initContainers[0]"
RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
POLICIES = 'supported values: "Always", "Never", "OnFailure"'
ACTIONS = 'supported values: "Restart", "RestartAllContainers"'
OPERATORS = 'supported values: "In", "NotIn"'
ONLY_SIDECARS = "Forbidden: may not be set for init containers without restartPolicy=Always"


def init(**fields: Any) -> Pod:
    """Build a pod with one init container with these fields."""
    return pod(initContainers=[{"name": "init", "image": "busybox"} | fields])


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        *(
            pytest.param(make(restartPolicy=policy, restartPolicyRules=[RULE]), [], id=f"{policy}-with-a-rule-{what}")
            for policy in ("Always", "OnFailure", "Never")
            for make, what in ((container, "of-a-container"), (init, "of-an-init-container"))
        ),
        pytest.param(container(restartPolicy="Never"), [], id="a-policy-without-rules"),
        pytest.param(
            container(restartPolicy="Sometimes"),
            [f'{C0}.restartPolicy: Unsupported value: "Sometimes": {POLICIES}'],
            id="unknown-policy",
        ),
        pytest.param(
            init(restartPolicy=""), [f'{I0}.restartPolicy: Unsupported value: "": {POLICIES}'], id="empty-policy"
        ),
        pytest.param(
            init(restartPolicyRules=[RULE]),
            [f"{I0}.restartPolicy: Required value: must specify restartPolicy when restart rules are used"],
            id="rules-without-a-policy",
        ),
        pytest.param(
            container(restartPolicy="Never", restartPolicyRules=[RULE] * 21),
            [f"{C0}.restartPolicyRules: Too many: 21: must have at most 20 items"],
            id="too-many-rules",
        ),
        pytest.param(
            container(restartPolicy="Never", restartPolicyRules=[{}]),
            [
                f'{C0}.restartPolicyRules[0].action: Unsupported value: "": {ACTIONS}',
                f"{C0}.restartPolicyRules[0].exitCodes: Required value: must be specified",
            ],
            id="a-rule-of-nothing",
        ),
        pytest.param(
            container(restartPolicy="Never", restartPolicyRules=[RULE, RULE | {"exitCodes": {"operator": "Near"}}]),
            [
                f'{C0}.restartPolicyRules[1].exitCodes.operator: Unsupported value: "Near": {OPERATORS}',
            ],
            id="unknown-operator",
        ),
        pytest.param(
            container(
                restartPolicy="Never",
                restartPolicyRules=[RULE | {"exitCodes": {"operator": "In", "values": list(range(256))}}],
            ),
            [f"{C0}.restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items"],
            id="too-many-codes",
        ),
        *(
            pytest.param(init(**{field: {}}), [f"{I0}.{field}: {ONLY_SIDECARS}"], id=f"{field}-of-an-init-container")
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
        ),
        pytest.param(
            init(restartPolicy="OnFailure", lifecycle={}),
            [f"{I0}.lifecycle: {ONLY_SIDECARS}"],
            id="nor-of-another-policy",
        ),
        pytest.param(init(restartPolicy="Always", lifecycle={}), [], id="a-hook-of-a-sidecar"),
    ],
)
def test_faults(source: Pod, faults: list[str]) -> None:
    """Every error by its path."""
    assert list(validate_pod(default_pod(source))) == faults
