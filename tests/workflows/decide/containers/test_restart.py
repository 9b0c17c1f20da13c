"""Is a container that has exited restarted?"""

from typing import Any

import pytest
from kubernetes.client.models.v1_container import V1Container

from tests.workflows.decide.situations import container
from workflows.decide.containers.restart import RestartPolicy, init_should_restart, policy_restarts

ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER


@pytest.mark.parametrize(
    ("policy", "exit_code", "regular", "init"),
    [
        pytest.param(ALWAYS, 0, True, False, id="always-starts-a-success-again-but-an-init-container-is-done"),
        pytest.param(ALWAYS, 1, True, True, id="always-starts-a-failure-again"),
        pytest.param(ON_FAILURE, 0, False, False, id="on-failure-leaves-a-success"),
        pytest.param(ON_FAILURE, 1, True, True, id="on-failure-starts-a-failure-again"),
        pytest.param(ON_FAILURE, 137, True, True, id="on-failure-starts-a-killed-one-again"),
        pytest.param(NEVER, 0, False, False, id="never-leaves-a-success"),
        pytest.param(NEVER, 1, False, False, id="never-leaves-a-failure"),
    ],
)
def test_starts_again(policy: RestartPolicy, exit_code: int, regular: bool, init: bool) -> None:
    """By policy and exit code, for regular and init containers."""
    web = written()
    assert (policy_restarts(web, policy, exit_code), init_should_restart(web, policy, exit_code)) == (regular, init)


def written(**fields: Any) -> V1Container:
    """Build a container with these fields."""
    read = V1Container.from_dict(container("web", **fields))
    assert read is not None
    return read


@pytest.mark.parametrize(
    ("own", "pods", "exit_code", "again"),
    [
        pytest.param("Always", NEVER, 0, True, id="always-of-its-own-in-a-pod-that-never-restarts"),
        pytest.param("OnFailure", NEVER, 1, True, id="on-failure-of-its-own-starts-a-failure-again"),
        pytest.param("OnFailure", ALWAYS, 0, False, id="on-failure-of-its-own-leaves-a-success"),
        pytest.param("Never", ALWAYS, 1, False, id="never-of-its-own-in-a-pod-that-always-restarts"),
    ],
)
def test_the_container_s_own_policy_goes_first(own: str, pods: RestartPolicy, exit_code: int, again: bool) -> None:
    """It overrides the pod's."""
    assert policy_restarts(written(restartPolicy=own), pods, exit_code) is again


def rule(operator: str, *codes: int) -> dict[str, Any]:
    """Build a rule that restarts."""
    return {"action": "Restart", "exitCodes": {"operator": operator, "values": list(codes)}}


@pytest.mark.parametrize(
    ("own", "rules", "exit_code", "again"),
    [
        pytest.param("Never", [rule("In", 42)], 42, True, id="in-the-list"),
        pytest.param("Never", [rule("In", 42)], 1, False, id="not-in-the-list-so-the-policy-decides"),
        pytest.param("OnFailure", [rule("In", 42)], 1, True, id="the-policy-may-say-yes"),
        pytest.param("Never", [rule("NotIn", 1, 2)], 42, True, id="outside-of-the-list"),
        pytest.param("Never", [rule("NotIn", 1, 2)], 2, False, id="in-the-list-of-those-outside"),
        pytest.param("Never", [rule("In", 1), rule("In", 42)], 42, True, id="the-second-rule"),
        pytest.param("Never", [rule("In")], 0, False, id="a-list-of-nothing"),
        pytest.param("Never", [rule("NotIn")], 0, True, id="all-but-nothing"),
        pytest.param("Never", [{"action": "Restart"}], 1, False, id="a-rule-without-exit-codes"),
        pytest.param(
            "Never", [{"action": "Restart", "exitCodes": {"operator": "Near"}}], 1, False, id="an-operator-of-later"
        ),
        pytest.param(None, [rule("In", 42)], 42, False, id="rules-without-a-policy-of-its-own-are-not-asked"),
    ],
)
def test_rules_by_exit_code(own: str | None, rules: list[dict[str, Any]], exit_code: int, again: bool) -> None:
    """The first rule that matches the exit code restarts; otherwise the container's policy decides."""
    fields = {"restartPolicy": own} if own else {}
    assert policy_restarts(written(restartPolicyRules=rules, **fields), NEVER, exit_code) is again


def test_an_init_container_that_succeeded_is_done_whatever_a_rule_says() -> None:
    """Rules apply only to its failures."""
    assert not init_should_restart(written(restartPolicy="Never", restartPolicyRules=[rule("In", 0)]), NEVER, 0)
