"""Rules about a container's own restartPolicy and its rules by exit code.

Source: pkg/apis/core/validation/validation.go, validateContainerRestartPolicy and validateInitContainerRestartPolicy,
with the gates ContainerRestartRules and RestartAllContainersOnContainerExits on, as in 1.36: regular containers and
init containers have the same rules.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from workflows.decide.manifest.fields.field_errors import not_supported, required, too_many

_POLICIES: Final = ("Always", "Never", "OnFailure")
_ACTIONS: Final = ("Restart", "RestartAllContainers")
_OPERATORS: Final = ("In", "NotIn")
_MOST_RULES: Final = 20
_MOST_CODES: Final = 255


def validate_restart_policy(container: Mapping[str, Any], path: str) -> Iterator[str]:
    """Validate a container's restart policy and rules."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", ())
    if policy is None and rules:
        yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    if policy is not None and policy not in _POLICIES:
        yield not_supported(f"{path}.restartPolicy", policy, _POLICIES)
    if len(rules) > _MOST_RULES:
        yield too_many(f"{path}.restartPolicyRules", len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        yield from _rule(rule, f"{path}.restartPolicyRules[{index}]")


def _rule(rule: Mapping[str, Any], path: str) -> Iterator[str]:
    if (action := rule.get("action", "")) not in _ACTIONS:
        yield not_supported(f"{path}.action", action, _ACTIONS)
    codes = rule.get("exitCodes")
    if codes is None:
        yield required(f"{path}.exitCodes", "must be specified")
        return
    if (operator := codes.get("operator", "")) not in _OPERATORS:
        yield not_supported(f"{path}.exitCodes.operator", operator, _OPERATORS)
    if len(values := codes.get("values", ())) > _MOST_CODES:
        yield too_many(f"{path}.exitCodes.values", len(values), _MOST_CODES)
