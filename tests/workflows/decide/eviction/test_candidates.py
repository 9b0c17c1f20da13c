"""Who is critical, what does a pod request, and which of its volumes count?"""

from typing import Any

import pytest
from pydantic import TypeAdapter

from proto.kubernetes.pod_containers import used_volumes
from proto.kubernetes.resources.qos import QosClass
from proto.kubernetes.resources.quantity import parse_quantity
from proto.kubernetes.source_annotations import SOURCE_ANNOTATION
from proto.temporal.eviction.candidates import Candidate
from tests.workflows.decide.eviction.pressed_pods import container, of_spec
from workflows.decide.eviction.candidates import candidate, decisive_part, requests


@pytest.mark.parametrize(
    ("annotations", "spec", "in_a_cluster", "alone"),
    [
        pytest.param({}, {}, False, False, id="a-pod-of-the-api"),
        pytest.param({"kubernetes.io/config.source": "api"}, {}, False, False, id="one-that-says-so"),
        pytest.param({"kubernetes.io/config.source": "file"}, {}, True, False, id="a-static-pod"),
        pytest.param({"kubernetes.io/config.mirror": "1"}, {}, True, False, id="a-mirror-pod"),
        pytest.param({}, {"priority": 2_000_000_000}, True, True, id="a-priority-of-the-system"),
        pytest.param({}, {"priority": 1_999_999_999}, False, False, id="one-less"),
        pytest.param(
            {}, {"priorityClassName": "system-node-critical"}, False, True, id="a-class-that-nothing-resolves"
        ),
    ],
)
def test_critical(annotations: dict[str, str], spec: dict[str, Any], in_a_cluster: bool, alone: bool) -> None:
    """As IsCriticalPod; on a node without a cluster, every pod is static."""
    pod = {"metadata": {"name": "a", "annotations": annotations}, "spec": {"containers": [container("c")], **spec}}
    assert candidate(pod).critical is in_a_cluster
    assert candidate(pod, alone=True).critical is alone


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"containers": [container("a", memory="1Mi"), container("b", memory="2Mi")]}, {"memory": "3Mi"}, id="a-sum"
        ),
        pytest.param(
            {"containers": [container("a", memory="1Mi")], "initContainers": [container("i", memory="5Mi", cpu="1")]},
            {"memory": "5Mi", "cpu": "1"},
            id="a-larger-init-container",
        ),
        pytest.param(
            {"containers": [container("a", memory="1Mi")], "overhead": {"memory": "2Mi", "cpu": "1"}},
            {"memory": "3Mi"},
            id="overhead-only-of-what-is-requested",
        ),
        pytest.param(
            {
                "containers": [container("a", memory="1Mi", ephemeral_storage="1Gi")],
                "resources": {"requests": {"memory": "7Mi"}},
            },
            {"memory": "7Mi"},
            id="the-pods-own-in-place-of-all-others",
        ),
        pytest.param(
            {"containers": [container("a", memory="1Mi")], "resources": {"limits": {"cpu": "1"}}},
            {},
            id="limits-of-its-own-hide-requests-of-containers",
        ),
    ],
)
def test_requests(spec: dict[str, Any], expected: dict[str, str]) -> None:
    """As GetResourceRequestQuantity."""
    found = requests({"metadata": {"name": "a"}, "spec": spec})
    assert found == {name: parse_quantity(amount) for name, amount in expected.items()}


def test_what_is_known_of_a_pod() -> None:
    """Containers before init containers, quantities in their canonical form, volumes on the node's disk."""
    pod = of_spec(
        "a",
        {
            "containers": [container("c", memory="1024Ki")],
            "initContainers": [container("i")],
            "terminationGracePeriodSeconds": 7,
            "resources": {"requests": {"memory": "2048Ki"}},
            "volumes": [
                {"name": "disk", "emptyDir": {"sizeLimit": "1Gi"}},
                {"name": "memory", "emptyDir": {"medium": "Memory"}},
                {"name": "host", "hostPath": {"path": "/"}},
                {"name": "map", "configMap": {"name": "m"}},
                {"name": "secret", "secret": {"secretName": "s"}},
            ],
        },
    )
    assert [(one.name, one.requests) for one in pod.containers] == [("c", {"memory": "1Mi"}), ("i", {})]
    assert (pod.grace_seconds, pod.pod_level_memory, pod.qos) == (7, "2Mi", QosClass.BURSTABLE)
    assert pod.local_volumes == ("disk", "host", "map")
    assert pod.limits is not None
    assert pod.limits.empty_dirs == {"disk": "1Gi"}
    assert pod.full_name == "default/a"


def test_a_candidate_passes_through_a_history() -> None:
    """With its requests, containers and limits."""
    volumes = [{"name": "disk", "emptyDir": {"sizeLimit": "1Gi"}}]
    pod = of_spec("a", {"containers": [container("c", memory="100m", ephemeral_storage="1Gi")], "volumes": volumes})
    shape = TypeAdapter(Candidate)
    assert shape.validate_json(shape.dump_json(pod)) == pod


def limited(name: str, limit: str, **more: Any) -> dict[str, Any]:
    """Build a container with a limit of ephemeral storage."""
    return {"name": name, "resources": {"limits": {"ephemeral-storage": limit}}, **more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [limited("a", "3e3")]}, "3e3", id="an-exponent-stays"),
        pytest.param({"containers": [limited("a", "1000"), limited("b", "1Ki")]}, "2024", id="the-first-ones-suffix"),
        pytest.param({"containers": [limited("a", "1Ki"), limited("b", "1024")]}, "2Ki", id="of-a-binary-one"),
        pytest.param({"containers": [limited("a", "0"), limited("b", "1Gi")]}, "1Gi", id="nothing-has-no-suffix"),
        pytest.param(
            {"containers": [limited("a", "1Gi")], "initContainers": [limited("i", "2G")]},
            "2G",
            id="the-larger-ones-suffix",
        ),
        pytest.param(
            {
                "containers": [limited("a", "1Ki")],
                "initContainers": [limited("s", "1Ki", restartPolicy="Always"), limited("i", "4Ki")],
            },
            "5Ki",
            id="an-init-container-beside-a-sidecar",
        ),
        pytest.param(
            {"containers": [limited("a", "1Ki")], "overhead": {"ephemeral-storage": "1Ki"}},
            "2Ki",
            id="with-the-overhead",
        ),
    ],
)
def test_the_pods_limit_is_written_as_by_go(spec: dict[str, Any], expected: str) -> None:
    """For the message that names it."""
    limits = of_spec("a", spec).limits
    assert limits is not None
    assert limits.pod == expected


def test_the_part_that_is_kept_decides_alike_and_says_nothing_of_what_runs() -> None:
    """A standalone node keeps no more of a pod beside its manifest."""
    limits = {"limits": {"ephemeral-storage": "2Gi"}, "requests": {"memory": "1Mi"}}
    secret = {"env": [{"name": "A", "value": "hidden"}], "command": ["hidden"], "image": "hidden"}
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/hidden", "subPath": "hidden"}]}
    whole: dict[str, Any] = {
        "metadata": {
            "uid": "u",
            "namespace": "n",
            "name": "web",
            "labels": {"a": "hidden"},
            "annotations": {SOURCE_ANNOTATION: "file", "a": "hidden"},
        },
        "spec": {
            "priority": 7,
            "priorityClassName": "mine",
            "terminationGracePeriodSeconds": 3,
            "overhead": {"memory": "1Mi"},
            "resources": {"requests": {"memory": "3Mi"}},
            "initContainers": [{"name": "side", "restartPolicy": "Always", "resources": limits, **secret}],
            "containers": [
                {"name": "main", "resources": limits, "livenessProbe": {"exec": secret}, **secret, **mounts}
            ],
            "ephemeralContainers": [
                {"name": "look", **secret, "volumeDevices": [{"name": "set", "devicePath": "/hidden"}]}
            ],
            "volumes": [
                {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}},
                {"name": "set", "csi": {"volumeAttributes": {"a": "hidden"}}},
                {"name": "config", "configMap": {"name": "hidden"}},
            ],
        },
    }
    kept = decisive_part(whole)
    assert candidate(kept) == candidate(whole)
    assert candidate(kept, alone=True) == candidate(whole, alone=True)
    assert used_volumes(kept["spec"]) == used_volumes(whole["spec"]) == {"data", "set"}
    assert "hidden" not in str(kept)
    assert [tuple(one) for one in kept["spec"]["volumes"]] == [
        ("name", "emptyDir"),
        ("name", "csi"),
        ("name", "configMap"),
    ]
