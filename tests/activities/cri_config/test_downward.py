"""Is a pod told about itself what the kubelet would tell it?"""

import re

import pytest

from activities.cri_config.downward import FieldError, default_limits, find_container, metadata_value, resource_value
from proto.kubernetes.resources.quantity import parse_quantity

POD = {
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "1234",
        "labels": {"b": "2", "a": "1"},
        "annotations": {"example.com/says": 'a "quote" and\nä line\x01', "k": "v"},
    },
    "spec": {
        "containers": [{"name": "app", "resources": {"limits": {"cpu": "500m"}}}],
        "initContainers": [{"name": "first"}],
    },
}
NODE = {
    name: parse_quantity(amount) for name, amount in (("cpu", "4"), ("memory", "8Gi"), ("ephemeral-storage", "20G"))
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("metadata.name", "web", id="name"),
        pytest.param("metadata.namespace", "shop", id="namespace"),
        pytest.param("metadata.uid", "1234", id="uid"),
        pytest.param("metadata.labels['a']", "1", id="a-label"),
        pytest.param("metadata.labels['none']", "", id="a-label-that-is-not-there-is-empty"),
        pytest.param("metadata.labels['']", "", id="an-empty-key-is-a-key"),
        pytest.param("metadata.annotations['k']", "v", id="an-annotation"),
        pytest.param("metadata.labels", 'a="1"\nb="2"', id="all-labels-sorted"),
        pytest.param(
            "metadata.annotations",
            'example.com/says="a \\"quote\\" and\\nä line\\x01"\nk="v"',
            id="all-annotations-quoted-as-go-does",
        ),
    ],
)
def test_metadata(path: str, expected: str) -> None:
    """A field of the metadata, as text."""
    assert metadata_value(POD, path) == expected


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param("spec.nodeName", "unsupported fieldPath: spec.nodeName", id="no-metadata"),
        pytest.param("metadata.name['a']", "fieldPath \"metadata.name['a']\" does not support subscript", id="no-map"),
        pytest.param("['a']", "unsupported fieldPath: ['a']", id="nothing-before-the-key"),
    ],
)
def test_what_is_no_metadata_is_told(path: str, message: str) -> None:
    """The words are the kubelet's."""
    with pytest.raises(FieldError, match=f"^{re.escape(message)}$"):
        metadata_value(POD, path)


@pytest.mark.parametrize(
    ("resource", "divisor", "given", "expected"),
    [
        pytest.param("limits.cpu", None, {"limits": {"cpu": "9"}}, "9", id="cpu"),
        pytest.param("requests.cpu", "1m", {"requests": {"cpu": "9"}}, "9000", id="cpu-in-thousandths"),
        pytest.param("requests.cpu", None, {"requests": {"cpu": "100m"}}, "1", id="cpu-is-rounded-up"),
        pytest.param("limits.cpu", "0", {"limits": {"cpu": "9"}}, "9", id="a-divisor-of-zero-is-one"),
        pytest.param("limits.memory", "1Mi", {"limits": {"memory": "100Mi"}}, "100", id="memory-in-mebibytes"),
        pytest.param("limits.memory", "1M", {"limits": {"memory": "100Mi"}}, "105", id="memory-is-rounded-up"),
        pytest.param("requests.memory", None, {"requests": {"memory": "1k"}}, "1000", id="memory-in-bytes"),
        pytest.param("requests.ephemeral-storage", "1G", {"requests": {"ephemeral-storage": "2G"}}, "2", id="storage"),
        pytest.param("limits.hugepages-2Mi", "1Mi", {"limits": {"hugepages-2Mi": "4Mi"}}, "4", id="huge-pages"),
        pytest.param("limits.hugepages-2Mi", None, {}, "0", id="no-huge-pages"),
        pytest.param("requests.cpu", None, {}, "0", id="no-request-is-zero"),
        pytest.param("limits.cpu", None, {}, "4", id="no-limit-is-the-nodes-cpu"),
        pytest.param("limits.memory", "1Gi", {"limits": {"memory": "0"}}, "8", id="a-limit-of-zero-is-none"),
        pytest.param("limits.ephemeral-storage", "1G", {}, "20", id="no-limit-is-the-nodes-storage"),
    ],
)
def test_resources(resource: str, divisor: str | None, given: dict[str, dict[str, str]], expected: str) -> None:
    """What a container asks for and may use, in units of the divisor."""
    selector = {"resource": resource} | ({"divisor": divisor} if divisor else {})
    assert resource_value(selector, {"name": "app", "resources": given}, NODE) == expected


@pytest.mark.parametrize("resource", ["limits.pods", "cpu", "limits", "status.cpu", ""])
def test_what_is_no_resource_is_told(resource: str) -> None:
    """The words are the kubelet's."""
    with pytest.raises(FieldError, match="unsupported container resource : "):
        resource_value({"resource": resource}, {}, NODE)


def test_a_pods_own_limit_stands_in_before_the_nodes() -> None:
    """Of cpu and memory; of storage a pod has none."""
    limits = {"cpu": "2", "ephemeral-storage": "1G", "memory": "0"}
    found = default_limits({"spec": {"resources": {"limits": limits}}}, NODE)
    assert found == NODE | {"cpu": parse_quantity("2")}
    assert default_limits({"spec": {}}, NODE) == NODE


def test_a_container_is_found_by_its_name() -> None:
    """Regular or init; else it is told."""
    assert find_container(POD, "app")["resources"] == {"limits": {"cpu": "500m"}}
    assert find_container(POD, "first") == {"name": "first"}
    with pytest.raises(FieldError, match=r"^container other not found$"):
        find_container(POD, "other")
