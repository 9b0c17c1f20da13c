"""Is a variable refused exactly when the API's ValidatePodCreate refuses it, with the same message?

The rows are those of TestValidateEnv and TestValidateEnvFrom (pkg/apis/core/validation/validation_test.go).
"""

from typing import Any

import pytest

from tests.workflows.decide.pods import LABEL_RULE, NAME_PART_RULE, SUBDOMAIN_RULE, container
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import POD
from workflows.decide.manifest.validation.containers.environment import file_key_refs
from workflows.decide.manifest.validation.pod import validate_pod

E0 = "spec.containers[0].env[0]"
FROM = f"{E0}.valueFrom"
ENV_FROM = "spec.containers[0].envFrom"
ENV_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or"
    " 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
PATHS = (
    '"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",'
    ' "status.hostIPs", "status.podIP", "status.podIPs"'
)
RESOURCES = (
    '"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",'
    ' "requests.memory"'
)
BYTES = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"


def judged(**fields: Any) -> list[str]:
    """Validate a container with these fields like a manifest's: structure, defaults, rules."""
    structure = read_structure(container(**fields), POD)
    assert not structure.not_yet
    return [*structure.faults, *validate_pod(default_pod(structure.content))]


def source(**chosen: Any) -> dict[str, Any]:
    """Build a variable with this source."""
    return {"env": [{"name": "A", "valueFrom": chosen}]}


def field(path: str, version: str = "v1") -> dict[str, Any]:
    """Build a variable with a fieldRef."""
    return source(fieldRef={"apiVersion": version, "fieldPath": path})


def resource(name: str, divisor: object = "1") -> dict[str, Any]:
    """Build a variable with a resourceFieldRef."""
    return source(resourceFieldRef={"resource": name, "divisor": divisor})


VALID = [
    *(field(path) for path in ("metadata.labels['a/b']", "metadata.annotations['A/b']", "spec.host", "status.podIPs")),
    source(fieldRef={"fieldPath": "metadata.name"}),
    *(resource(name, unit) for name in ("limits.cpu", "requests.cpu") for unit in ("1m", "1", 1, "1000m", 0)),
    *(resource(name, "1Mi") for name in ("limits.memory", "requests.ephemeral-storage", "limits.hugepages-2Mi")),
    source(secretKeyRef={"name": "a-secret", "key": "a-key.b_c", "optional": True}),
    source(configMapKeyRef={"name": "a.configmap", "key": "K"}),
    {"envFrom": [{"prefix": "P ", "configMapRef": {"name": "a", "optional": False}}, {"secretRef": {"name": "b"}}]},
    {"env": [], "envFrom": []},
]


@pytest.mark.parametrize("fields", VALID, ids=lambda fields: str(fields)[:60])
def test_valid(fields: dict[str, Any]) -> None:
    """What the API accepts is accepted."""
    assert judged(**fields) == []


ONE_OF = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
ROWS = [
    pytest.param(source(), [f'{FROM}: Invalid value: "": {ONE_OF}'], id="no-source"),
    pytest.param(
        {"env": [field("metadata.name")["env"][0] | {"value": "b"}]},
        [f'{FROM}: Invalid value: "": may not be specified when `value` is not empty'],
        id="value-and-source",
    ),
    pytest.param(
        source(secretKeyRef={"name": "a", "key": "b"}, configMapKeyRef={"name": "a", "key": "b"}),
        [f'{FROM}: Invalid value: "": may not have more than one field specified at a time'],
        id="two-sources",
    ),
    pytest.param(source(fieldRef={}), [f"{FROM}.fieldRef.fieldPath: Required value"], id="no-path"),
    pytest.param(
        field("metadata.name", "v2"),
        [
            f'{FROM}.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2'
        ],
        id="another-version",
    ),
    pytest.param(
        field("metadata.whoops"),
        [
            (
                f'{FROM}.fieldRef.fieldPath: Invalid value: "metadata.whoops": error converting fieldPath: field label not'
                " supported: metadata.whoops"
            )
        ],
        id="no-such-field",
    ),
    pytest.param(
        field("spec.nodeName['a']"),
        [
            (
                f"{FROM}.fieldRef.fieldPath: Invalid value: \"spec.nodeName['a']\": error converting fieldPath: field label does"
                " not support subscript: spec.nodeName['a']"
            )
        ],
        id="a-key-of-what-is-no-map",
    ),
    pytest.param(
        field("metadata.labels"),
        [f'{FROM}.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: {PATHS}'],
        id="a-whole-map",
    ),
    pytest.param(
        field("status.phase"),
        [f'{FROM}.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: {PATHS}'],
        id="a-field-that-is-not-told",
    ),
    pytest.param(
        field("metadata.labels['']"),
        [
            f'{FROM}.fieldRef: Invalid value: "": name part must be non-empty',
            f'{FROM}.fieldRef: Invalid value: "": {NAME_PART_RULE}',
        ],
        id="an-empty-label",
    ),
    pytest.param(
        field("metadata.annotations['A!']"),
        [f'{FROM}.fieldRef: Invalid value: "a!": {NAME_PART_RULE}'],
        id="a-bad-annotation-in-small-letters",
    ),
    pytest.param(source(resourceFieldRef={}), [f"{FROM}.resourceFieldRef.resource: Required value"], id="no-resource"),
    pytest.param(
        resource("limits.pods", 0),
        [f'{FROM}.resourceFieldRef.resource: Unsupported value: "limits.pods": supported values: {RESOURCES}'],
        id="no-such-resource",
    ),
    pytest.param(
        resource("limits.cpu", "1k"),
        [
            (
                f'{FROM}.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor\'s values 1m and 1 are supported'
                " with the cpu resource"
            )
        ],
        id="cpu-in-thousands",
    ),
    *(
        pytest.param(
            resource(name, "1m"),
            [
                (
                    f'{FROM}.resourceFieldRef.divisor: Invalid value: "{name}": only divisor\'s values {BYTES} are supported'
                    f" with the {said} resource"
                )
            ],
            id=f"{name}-in-thousandths",
        )
        for name, said in (
            ("limits.memory", "memory"),
            ("requests.ephemeral-storage", "local ephemeral storage"),
            ("limits.hugepages-2Mi", "hugepages"),
        )
    ),
    pytest.param(
        resource("limits.cpu", "x"),
        [
            (
                f'{FROM}.resourceFieldRef.divisor: Invalid value: "x": quantities must match the regular expression'
                " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            )
        ],
        id="a-divisor-that-is-no-quantity",
    ),
    pytest.param(
        source(secretKeyRef={"name": "A b"}),
        [
            f'{FROM}.secretKeyRef.name: Invalid value: "A b": {SUBDOMAIN_RULE}',
            f"{FROM}.secretKeyRef.key: Required value",
        ],
        id="a-secret-of-no-name-and-key",
    ),
    pytest.param(
        source(configMapKeyRef={"name": "a", "key": "../x"}),
        [
            f'{FROM}.configMapKeyRef.key: Invalid value: "../x": {KEY_RULE}',
            f"{FROM}.configMapKeyRef.key: Invalid value: \"../x\": must not start with '..'",
        ],
        id="a-key-that-climbs",
    ),
    pytest.param(
        source(configMapKeyRef={"name": "a", "key": ".."}),
        [f"{FROM}.configMapKeyRef.key: Invalid value: \"..\": must not be '..'"],
        id="a-key-of-two-dots",
    ),
    pytest.param(
        source(configMapKeyRef={"name": "a", "key": "k" * 254}),
        [f'{FROM}.configMapKeyRef.key: Invalid value: "{"k" * 120}…": must be no more than 253 characters'],
        id="a-long-key",
    ),
    pytest.param(
        source(fileKeyRef={}),
        [
            f"{FROM}.fileKeyRef.key: Required value",
            f"{FROM}.fileKeyRef.volumeName: Required value",
            f"{FROM}.fileKeyRef.path: Required value",
            f'{FROM}.fileKeyRef.volumeName: Not found: ""',
        ],
        id="a-file-of-nothing",
    ),
    pytest.param(
        source(fileKeyRef={"key": "A=", "volumeName": "A", "path": "a/../b"}),
        [
            f'{FROM}.fileKeyRef.key: Invalid value: "A=": {ENV_RULE}',
            f'{FROM}.fileKeyRef.volumeName: Invalid value: "A": {LABEL_RULE}',
            f"{FROM}.fileKeyRef.path: Invalid value: \"a/../b\": must not contain '..'",
            f'{FROM}.fileKeyRef.volumeName: Not found: "A"',
        ],
        id="a-file-that-climbs",
    ),
    pytest.param(
        {"envFrom": [{}]},
        [f'{ENV_FROM}: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'],
        id="no-source-of-all",
    ),
    pytest.param(
        {"envFrom": [{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]},
        [f'{ENV_FROM}: Invalid value: "": may not have more than one field specified at a time'],
        id="two-sources-of-all",
    ),
    pytest.param(
        {"envFrom": [{"configMapRef": {}}, {"secretRef": {"name": "$"}, "prefix": "a=b"}]},
        [
            f"{ENV_FROM}[0].configMapRef.name: Required value",
            f'{ENV_FROM}[1].prefix: Invalid value: "a=b": {ENV_RULE}',
            f'{ENV_FROM}[1].secretRef.name: Invalid value: "$": {SUBDOMAIN_RULE}',
        ],
        id="names-and-prefixes",
    ),
]


@pytest.mark.parametrize(("fields", "faults"), ROWS)
def test_refused(fields: dict[str, Any], faults: list[str]) -> None:
    """The API's message, with the field's path."""
    assert judged(**fields) == faults


def test_the_version_of_a_field_is_filled_in() -> None:
    """The manifest itself is not changed."""
    pod = container(**source(fieldRef={"fieldPath": "metadata.name"}))
    filled = default_pod(pod)["spec"]["containers"][0]["env"][0]["valueFrom"]
    assert filled == {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}
    assert "apiVersion" not in pod["spec"]["containers"][0]["env"][0]["valueFrom"]["fieldRef"]


@pytest.mark.parametrize(
    ("volume", "faults"),
    [
        pytest.param({"emptyDir": {}}, [], id="an-emptydir"),
        pytest.param(
            {"hostPath": {"path": "/etc"}},
            [(f'{FROM}.fileKeyRef.volumeName: Invalid value: "v": referenced volume must be of type emptyDir')],
            id="another-type",
        ),
    ],
)
def test_the_volume_of_a_file(volume: dict[str, Any], faults: list[str]) -> None:
    """Only an emptyDir is allowed."""
    pod = container(**source(fileKeyRef={"key": "K", "volumeName": "v", "path": "a/b"}))
    pod["spec"]["volumes"] = [{"name": "v"} | volume]
    filled = default_pod(pod)
    assert list(validate_pod(filled)) == faults
    assert filled["spec"]["containers"][0]["env"][0]["valueFrom"]["fileKeyRef"]["optional"] is False
    assert list(file_key_refs(filled["spec"])) == [f"{FROM}.fileKeyRef"]
