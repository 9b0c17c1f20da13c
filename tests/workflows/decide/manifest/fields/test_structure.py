"""Is every unknown field and every value of a wrong type named by its path, and is any document handled?"""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workflows.decide.pods import Pod, container, pod
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.fields.field_errors import Key, key_path, quoted
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import CONTAINER, METADATA, POD, SPEC
from workflows.decide.manifest.validation.pod import validate_pod

C0 = "spec.containers[0]"


def manifest(**fields: Any) -> Pod:
    """Build a whole document."""
    return {"apiVersion": "v1", "kind": "Pod"} | pod() | fields


@pytest.mark.parametrize(
    ("document", "faults"),
    [
        pytest.param(manifest(), [], id="a-plain-pod"),
        pytest.param(
            manifest(speck={}), ["speck: unknown field; did you mean spec?"], id="unknown-field-with-a-neighbour"
        ),
        pytest.param(manifest(xyzzy=None), ["xyzzy: unknown field"], id="unknown-field-even-when-null"),
        pytest.param(
            manifest(**container(image_pull_policy="Always")),
            [f"{C0}.image_pull_policy: unknown field; did you mean imagePullPolicy?"],
            id="snake-case",
        ),
        pytest.param(
            manifest(**pod(HostNetwork=True)),
            ["spec.HostNetwork: unknown field; did you mean hostNetwork?"],
            id="wrong-case",
        ),
        pytest.param(
            manifest(**pod(true=1)),
            [
                (
                    "spec.true: unknown field; YAML reads an unquoted yes, no, on, off, y, n, true or false as a boolean;"
                    " quote it"
                )
            ],
            id="a-key-that-yaml-made-true",
        ),
        pytest.param(
            manifest(**container(name=True)),
            [
                (
                    f"{C0}.name: must be a string, not a boolean (YAML reads an unquoted yes, no, on, off, y, n, true or false"
                    " as a boolean; quote it)"
                )
            ],
            id="yes-as-a-name",
        ),
        pytest.param(
            manifest(**container(env=[{"name": "A", "value": 5432}])),
            [f"{C0}.env[0].value: must be a string, not a number; quote it"],
            id="number-as-an-env-value-is-not-repeated",
        ),
        pytest.param(
            manifest(**container(ports=[{"containerPort": "80"}])),
            [f"{C0}.ports[0].containerPort: must be a 32-bit integer, not a string"],
            id="string-as-a-port",
        ),
        pytest.param(
            manifest(**container(ports=[{"containerPort": 2**31}, {"containerPort": 1.5}, {"containerPort": True}])),
            [
                f"{C0}.ports[0].containerPort: must be a 32-bit integer, not a larger number",
                f"{C0}.ports[1].containerPort: must be a 32-bit integer, not a number with a fraction or an exponent",
                f"{C0}.ports[2].containerPort: must be a 32-bit integer, not a boolean",
            ],
            id="ports-that-are-no-32-bit-integers",
        ),
        pytest.param(
            manifest(**container(command="sh -c")),
            [f"{C0}.command: must be a list of strings, not a string"],
            id="command-as-text",
        ),
        pytest.param(
            manifest(**container(args=["-n", None, 5])),
            [f"{C0}.args[1]: must be a string, not null", f"{C0}.args[2]: must be a string, not a number; quote it"],
            id="args-of-other-kinds",
        ),
        pytest.param(
            manifest(**pod(containers={"name": "a"})),
            ["spec.containers: must be a list of objects, not an object"],
            id="one-container-without-its-dash",
        ),
        pytest.param(
            manifest(**pod(containers=["a"], securityContext="x", hostPID="x")),
            [
                "spec.containers[0]: must be an object, not a string",
                "spec.securityContext: must be an object, not a string",
                "spec.hostPID: must be a boolean, not a string",
            ],
            id="all-are-reported",
        ),
        pytest.param(manifest(metadata=[]), ["metadata: must be an object, not a list"], id="metadata-as-a-list"),
        pytest.param(
            manifest(**pod({"labels": {"a b/c": 1}})),
            ["metadata.labels[a b/c]: must be a string, not a number; quote it"],
            id="label-of-a-number",
        ),
        pytest.param(
            manifest(**container(resources={"limits": {"cpu": "1 core"}})),
            [
                (
                    f'{C0}.resources.limits[cpu]: Invalid value: "1 core": quantities must match the regular expression'
                    " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                )
            ],
            id="quantity",
        ),
        pytest.param(
            manifest(**container(args=["a\0b"], image="\ud800", env=[{"name": "A", "value": "😀"}])),
            [
                f"{C0}.image: must not contain half a surrogate pair",
                f"{C0}.args[0]: must not contain a NUL character",
            ],
            id="text-that-no-program-can-be-given",
        ),
    ],
)
def test_structure(document: Pod, faults: list[str]) -> None:
    """Unknown fields and wrong types are named by their full path."""
    assert sorted(read_structure(document, POD).faults) == sorted(faults)


def test_nulls_are_left_out_and_quantities_are_text() -> None:
    """The result is what Kubernetes' decoder keeps."""
    limits = {"cpu": 1, "memory": 1048576, "ephemeral-storage": None}
    given_pod = manifest(**container(command=None, resources={"limits": limits}))
    given_pod["metadata"] |= {"labels": {"empty": None}, "creationTimestamp": None}
    content = read_structure(given_pod, POD).content
    assert content["metadata"] == {"name": "web", "namespace": "default", "labels": {"empty": ""}}
    assert content["spec"]["containers"][0] == {
        "name": "web",
        "image": "busybox",
        "resources": {"limits": {"cpu": "1", "memory": "1048576", "ephemeral-storage": "0"}},
    }


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        pytest.param(["spec", "containers", 0, "name"], "spec.containers[0].name", id="fields-and-indices"),
        pytest.param(["metadata", "labels", Key("app")], "metadata.labels[app]", id="the-operator's-own-key"),
        pytest.param(["a b"], "[a b]", id="no-field"),
        pytest.param(["a\n"], '["a\\n"]', id="what-cannot-be-printed"),
        pytest.param(["x" * 500], f"[{'x' * 120}…]", id="too-long"),
    ],
)
def test_paths(steps: list[str | int], path: str) -> None:
    """A path is one printable line."""
    assert key_path(steps) == path


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("ä", '"ä"', id="letters-stay"),
        pytest.param('a"b\n', '"a\\"b\\n"', id="escaped"),
        pytest.param("x" * 500, f'"{"x" * 120}…"', id="cut"),
        pytest.param("\ud800", '"\\ud800"', id="half-a-surrogate-pair"),
        pytest.param([[1]], "[…]", id="list"),
        pytest.param({"a": 1}, "{…}", id="object"),
        pytest.param(10**300, f"1{'0' * 119}…", id="large-number"),
    ],
)
def test_values_in_messages(value: object, text: str) -> None:
    """A message is short and printable, whatever the value."""
    assert quoted(value) == text


names = st.sampled_from(sorted({*POD, *METADATA, *SPEC, *CONTAINER, "requests", "limits", "cpu", "key", "value", "x"}))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(), inner, max_size=4),
    max_leaves=12,
)
containers = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(CONTAINER, anything)), max_size=2)
specs = st.fixed_dictionaries({}, optional=dict.fromkeys(SPEC, anything) | {"containers": containers})
metadatas = st.fixed_dictionaries({}, optional=dict.fromkeys(METADATA, anything))


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(names, anything) | st.fixed_dictionaries({"metadata": metadatas, "spec": specs}))
def test_any_document_is_answered(document: dict[str, Any]) -> None:
    """Any JSON gets an answer, and an accepted one stays the same when it is parsed again."""
    found = read_structure(document, POD)
    assert all(isinstance(one, str) and one.isprintable() for one in (*found.faults, *found.not_yet))
    if not found.faults:
        filled = default_pod(found.content)
        assert all(isinstance(one, str) for one in validate_pod(filled))
        assert json.loads(json.dumps(filled)) == filled
        assert read_structure(filled, POD).content == filled
    with contextlib.suppress(UnicodeEncodeError):
        json.dumps(document).encode()
