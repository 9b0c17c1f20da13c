"""Is an ephemeral container refused exactly when the API refuses it, with the same message?

The rows are the API server's TestValidateEphemeralContainers (pkg/apis/core/validation/validation_test.go) for the supported
fields.
"""

from typing import Any

import pytest

from tests.workflows.decide.pods import LABEL_RULE, Pod, pod
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.fields.supported_security import WINDOWS
from workflows.decide.manifest.validation.ephemeral import judge_ephemeral_container
from workflows.decide.manifest.validation.pod import validate_pod

E0 = "spec.ephemeralContainers[0]"
POLICIES = '"File", "FallbackToLogsOnError"'
FORBIDDEN = "Forbidden: cannot be set for an Ephemeral Container"


def faults(container: dict[str, Any], **spec: Any) -> list[str]:
    """Validate one that is to be added to a pod with the container web and, if given, others."""
    return list(judge_ephemeral_container(default_pod(pod(**spec)), container).faults)


def debug(**fields: Any) -> dict[str, Any]:
    """Build a valid one."""
    return {"name": "debug", "image": "busybox:1", **fields}


@pytest.mark.parametrize(
    "container",
    [
        pytest.param(debug(), id="name-and-image"),
        pytest.param(debug(targetContainerName="web"), id="the-target-is-a-container"),
        pytest.param(debug(targetContainerName="init"), id="the-target-is-an-init-container"),
        pytest.param(
            debug(
                command=["bash"],
                args=["bash"],
                workingDir="/",
                env=[{"name": "A", "value": "B"}],
                terminationMessagePath="/dev/log",
                terminationMessagePolicy="File",
                imagePullPolicy="IfNotPresent",
                stdin=True,
                stdinOnce=True,
                tty=True,
            ),
            id="every-field-that-may-be-set",
        ),
        pytest.param(debug(ports=[], resources={}), id="what-asks-for-nothing"),
    ],
)
def test_what_is_taken(container: dict[str, Any]) -> None:
    """It is accepted and defaulted."""
    assert faults(container, initContainers=[{"name": "init", "image": "a"}]) == []


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        pytest.param({"image": "a"}, [f"{E0}.name: Required value"], id="no-name"),
        pytest.param({"name": "debug"}, [f"{E0}.image: Required value"], id="no-image"),
        pytest.param(debug(name="A"), [f'{E0}.name: Invalid value: "A": {LABEL_RULE}'], id="no-label"),
        pytest.param(
            debug(image=" a "),
            [f'{E0}.image: Invalid value: " a ": must not have leading or trailing whitespace'],
            id="space-around-the-image",
        ),
        pytest.param(debug(name="web"), [f'{E0}.name: Duplicate value: "web"'], id="name-of-a-container"),
        pytest.param(debug(name="init"), [f'{E0}.name: Duplicate value: "init"'], id="name-of-an-init-container"),
        pytest.param(
            debug(volumeMounts=[{"name": "data", "mountPath": "/a", "subPath": "x"}]),
            [f'{E0}.volumeMounts[0].name: Not found: "data"', f"{E0}.volumeMounts[0].subPath: {FORBIDDEN}"],
            id="subPath",
        ),
        pytest.param(
            debug(volumeMounts=[{"name": "data", "mountPath": "/a", "subPathExpr": "x"}]),
            [f'{E0}.volumeMounts[0].name: Not found: "data"', f"{E0}.volumeMounts[0].subPathExpr: {FORBIDDEN}"],
            id="subPathExpr",
        ),
        pytest.param(
            debug(targetContainerName="bogus"),
            [f'{E0}.targetContainerName: Not found: "bogus"'],
            id="target-that-is-not-there",
        ),
        pytest.param(
            debug(targetContainerName="debug"),
            [f'{E0}.targetContainerName: Not found: "debug"'],
            id="it-is-no-target-itself",
        ),
        pytest.param(
            debug(terminationMessagePolicy="PlanetExpress"),
            [f'{E0}.terminationMessagePolicy: Unsupported value: "PlanetExpress": supported values: {POLICIES}'],
            id="message-policy",
        ),
        pytest.param(
            debug(
                ports=[{"containerPort": 80}],
                resources={"limits": {"cpu": "1"}},
                livenessProbe={"exec": {"command": ["a"]}},
                readinessProbe={"exec": {"command": ["a"]}},
                startupProbe={"exec": {"command": ["a"]}},
                lifecycle={"preStop": {"exec": {"command": ["a"]}}},
                restartPolicy="Always",
                restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
            ),
            [
                f"{E0}.{field}: {FORBIDDEN}"
                for field in (
                    "ports",
                    "resources",
                    "livenessProbe",
                    "readinessProbe",
                    "startupProbe",
                    "lifecycle",
                    "restartPolicy",
                    "restartPolicyRules",
                )
            ],
            id="what-only-lasting-containers-may-ask-for",
        ),
        pytest.param(debug(env=[{"value": "a"}]), [f"{E0}.env[0].name: Required value"], id="variable-without-a-name"),
        pytest.param(debug(command="sh"), [f"{E0}.command: must be a list of strings, not a string"], id="no-list"),
        pytest.param(debug(comand=[]), [f"{E0}.comand: unknown field; did you mean command?"], id="unknown-field"),
        pytest.param(
            debug(securityContext={"windowsOptions": {}}),
            [f"{E0}.securityContext.windowsOptions: not supported: {WINDOWS}"],
            id="what-this-version-does-not-run",
        ),
    ],
)
def test_what_is_refused(container: dict[str, Any], expected: list[str]) -> None:
    """With the path that it would have in the pod."""
    assert faults(container, initContainers=[{"name": "init", "image": "a"}]) == expected


def test_paths_and_names_count_those_that_are_there() -> None:
    """The second one's path has its index, and it may not have the first one's name or target it."""
    there = [debug(terminationMessagePath="/dev/termination-log", resources={})]
    again = debug(targetContainerName="debug")
    assert faults(again, ephemeralContainers=there) == [
        'spec.ephemeralContainers[1].name: Duplicate value: "debug"',
        'spec.ephemeralContainers[1].targetContainerName: Not found: "debug"',
    ]


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(pod(ephemeralContainers=[]), [], id="none"),
        pytest.param(
            pod(ephemeralContainers=[debug()]),
            ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
            id="one",
        ),
    ],
)
def test_no_pod_is_made_with_them(manifest: Pod, expected: list[str]) -> None:
    """A manifest may not contain any."""
    assert list(validate_pod(default_pod(manifest))) == expected
