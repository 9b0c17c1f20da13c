"""Is a volume with content refused exactly when the API refuses it, with the same message? (validation_test.go TestValidateVolumes)"""

from typing import Any

import pytest

from workflows.decide.manifest.defaults.content_defaults import default_contents
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import POD
from workflows.decide.manifest.validation.volumes.volumes import validate_volumes

PATH = "spec.volumes[0]"
MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def faults(**source: Any) -> list[str]:
    """Validate one volume."""
    return list(validate_volumes({"volumes": [{"name": "v", **source}], "containers": []}))


def item(path: str = "p", key: str = "k", **more: Any) -> dict[str, Any]:
    """Build a key with its path."""
    return {"key": key, "path": path} | more


FIELD = {"apiVersion": "v1", "fieldPath": "metadata.labels"}
CPU = {"containerName": "c", "resource": "limits.cpu"}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param({"configMap": {"name": "cm"}}, id="a-config-map"),
        pytest.param({"configMap": {"name": "cm", "defaultMode": 0o644, "optional": True}}, id="with-mode"),
        pytest.param({"configMap": {"name": "cm", "items": [item("sub/file", mode=0o400)]}}, id="with-items"),
        pytest.param({"secret": {"secretName": "s", "items": [item("a..b")], "defaultMode": 0}}, id="a-secret"),
        pytest.param({"downwardAPI": {}}, id="an-empty-downward-api"),
        pytest.param({"downwardAPI": {"items": [{"path": "l", "fieldRef": FIELD, "mode": 0o777}]}}, id="labels"),
        pytest.param(
            {"downwardAPI": {"items": [{"path": "l", "fieldRef": FIELD | {"fieldPath": "metadata.labels['a/b']"}}]}},
            id="one-label",
        ),
        pytest.param(
            {"downwardAPI": {"items": [{"path": "l", "resourceFieldRef": CPU | {"divisor": "1m"}}]}}, id="cpu"
        ),
        pytest.param({"projected": {}}, id="an-empty-projection"),
        pytest.param(
            {"projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c", "items": [item()]}}]}},
            id="two-sources",
        ),
    ],
)
def test_what_the_api_takes(source: dict[str, Any]) -> None:
    """There are no errors."""
    assert faults(**source) == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        pytest.param({"configMap": {}}, f"{PATH}.configMap.name: Required value", id="no-config-map"),
        pytest.param({"secret": {"secretName": ""}}, f"{PATH}.secret.secretName: Required value", id="no-secret"),
        pytest.param(
            {"configMap": {"name": "c", "defaultMode": 0o1000}},
            f"{PATH}.configMap.defaultMode: Invalid value: 512: {MODE}",
            id="a-mode-beyond-0777",
        ),
        pytest.param(
            {"secret": {"secretName": "s", "defaultMode": -1}},
            f"{PATH}.secret.defaultMode: Invalid value: -1: {MODE}",
            id="a-negative-mode",
        ),
        pytest.param(
            {"secret": {"secretName": "s", "items": [item(mode=0o1000)]}},
            f"{PATH}.secret.items[0].mode: Invalid value: 512: {MODE}",
            id="an-items-mode",
        ),
        pytest.param(
            {"configMap": {"name": "c", "items": [item(key="")]}},
            f"{PATH}.configMap.items[0].key: Required value",
            id="no-key",
        ),
        pytest.param(
            {"configMap": {"name": "c", "items": [item("")]}},
            f"{PATH}.configMap.items[0].path: Required value",
            id="no-path",
        ),
        pytest.param(
            {"configMap": {"name": "c", "items": [item("/etc/passwd")]}},
            f'{PATH}.configMap.items[0].path: Invalid value: "/etc/passwd": must be a relative path',
            id="an-absolute-path",
        ),
        pytest.param(
            {"configMap": {"name": "c", "items": [item("a/../../b")]}},
            f"{PATH}.configMap.items[0].path: Invalid value: \"a/../../b\": must not contain '..'",
            id="steps-back",
        ),
        pytest.param(
            {"secret": {"secretName": "c", "items": [item("..data")]}},
            f"{PATH}.secret.items[0].path: Invalid value: \"..data\": must not start with '..'",
            id="a-path-of-the-nodes-own",
        ),
        pytest.param(
            {"downwardAPI": {"items": [{"path": "p"}]}},
            f"{PATH}.downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
            id="a-file-that-tells-nothing",
        ),
        pytest.param(
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": FIELD, "resourceFieldRef": CPU}]}},
            f'{PATH}.downwardAPI: Invalid value: "resource": fieldRef and resourceFieldRef can not be specified '
            "simultaneously",
            id="a-file-that-tells-two-things",
        ),
        pytest.param(
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": FIELD | {"fieldPath": "spec.nodeName"}}]}},
            f'{PATH}.downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: '
            '"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"',
            id="a-field-only-a-variable-may-tell",
        ),
        pytest.param(
            {"downwardAPI": {"items": [{"path": "p", "resourceFieldRef": {"resource": "limits.cpu"}}]}},
            f"{PATH}.downwardAPI.resourceFieldRef.containerName: Required value",
            id="a-resource-of-no-container",
        ),
        pytest.param(
            {"downwardAPI": {"items": [], "defaultMode": 0o1000}},
            f"{PATH}.downwardAPI.defaultMode: Invalid value: 512: {MODE}",
            id="a-downward-mode",
        ),
        pytest.param(
            {"projected": {"sources": [{"secret": {}}]}},
            f"{PATH}.projected.sources[0].secret.name: Required value",
            id="a-projected-secret-without-a-name",
        ),
        pytest.param(
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": "s", "items": [item()]}},
                        {"configMap": {"name": "c", "items": [item()]}},
                    ]
                }
            },
            f'{PATH}.projected: Invalid value: "c": conflicting duplicate paths',
            id="two-sources-with-one-path",
        ),
        pytest.param(
            {"projected": {"sources": [{"secret": {"name": "s"}, "configMap": {"name": "c"}}]}},
            f"{PATH}.projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
            id="one-source-of-two-types",
        ),
        pytest.param(
            {"projected": {"sources": [], "defaultMode": 0o7777}},
            f"{PATH}.projected.defaultMode: Invalid value: 4095: {MODE}",
            id="a-projections-mode",
        ),
    ],
)
def test_what_the_api_refuses(source: dict[str, Any], fault: str) -> None:
    """By field path."""
    assert faults(**source) == [fault]


@pytest.mark.parametrize("kind", ["serviceAccountToken", "clusterTrustBundle", "podCertificate"])
def test_what_only_an_api_server_can_give_is_refused_by_its_path(kind: str) -> None:
    """The message says where it is supported."""
    container = {"name": "c", "image": "busybox:1"}
    volume = {"name": "v", "projected": {"sources": [{kind: {"path": "token"}}]}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container], "volumes": [volume]}}
    [said] = read_structure(pod, POD).not_yet
    assert said.startswith(f"spec.volumes[0].projected.sources[0].{kind}: not supported: ")
    assert "a static pod has no source for it" in said


@pytest.mark.parametrize("kind", ["configMap", "secret", "downwardAPI", "projected"])
def test_files_are_readable_by_all_unless_it_is_said(kind: str) -> None:
    """The API's default mode; a given one stays, also zero."""
    assert default_contents(kind, {}) == {"defaultMode": 0o644}
    assert default_contents(kind, {"defaultMode": 0}) == {"defaultMode": 0}


def test_a_told_field_is_one_of_the_first_version() -> None:
    """Also inside a projection; a given version stays."""
    bare = {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}
    whole = {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}]}
    assert default_contents("downwardAPI", bare) == {"defaultMode": 0o644} | whole
    assert default_contents("projected", {"sources": [{"downwardAPI": bare}, {"secret": {"name": "s"}}]}) == {
        "defaultMode": 0o644,
        "sources": [{"downwardAPI": whole}, {"secret": {"name": "s"}}],
    }
    assert default_contents("hostPath", {"path": "/"}) == {"path": "/"}
