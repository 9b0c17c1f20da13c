"""Are all ConfigMaps and Secrets that a pod refers to found, anywhere in its spec, and nothing else?"""

from typing import Any

import pytest

from activities.objects.objects import ObjectKind
from worker.api_objects.references import references

CM, SECRET = ObjectKind.CONFIG_MAPS, ObjectKind.SECRETS


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        pytest.param({}, set(), id="a-pod-that-names-nothing"),
        pytest.param({"imagePullSecrets": [{"name": "pull"}, {}]}, {(SECRET, "pull")}, id="pull-secrets"),
        *(
            pytest.param(
                {kind: [{"env": [{"name": "A", "valueFrom": {source: {"name": "x", "key": "k"}}}]}]},
                {(named, "x")},
                id=f"{source}-of-{kind}",
            )
            for kind in ("initContainers", "containers", "ephemeralContainers")
            for source, named in (("configMapKeyRef", CM), ("secretKeyRef", SECRET))
        ),
        pytest.param({"containers": [{"envFrom": [{"configMapRef": {"name": "x"}}]}]}, {(CM, "x")}, id="all-of-a-map"),
        pytest.param(
            {"containers": [{"envFrom": [{"secretRef": {"name": "x"}}]}]}, {(SECRET, "x")}, id="all-of-a-secret"
        ),
        pytest.param({"volumes": [{"configMap": {"name": "x"}}]}, {(CM, "x")}, id="a-volume-of-a-map"),
        pytest.param({"volumes": [{"secret": {"secretName": "x"}}]}, {(SECRET, "x")}, id="a-volume-of-a-secret"),
        pytest.param(
            {"volumes": [{"projected": {"sources": [{"configMap": {"name": "x"}}, {"secret": {"name": "y"}}]}}]},
            {(CM, "x"), (SECRET, "y")},
            id="a-projection",
        ),
        pytest.param(
            {"volumes": [{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"downwardAPI": {}}]}}]},
            set(),
            id="a-projection-of-neither",
        ),
        pytest.param(
            {"volumes": [{"csi": {"nodePublishSecretRef": {"name": "x"}}}]}, {(SECRET, "x")}, id="an-inline-csi"
        ),
        pytest.param({"volumes": [{"iscsi": {"secretRef": {"name": "x"}}}]}, {(SECRET, "x")}, id="an-iscsi-disk"),
        pytest.param({"volumes": [{"persistentVolumeClaim": {"claimName": "x"}}]}, set(), id="a-claim"),
    ],
)
def test_what_a_pod_refers_to(spec: dict[str, Any], found: set[tuple[ObjectKind, str]]) -> None:
    """The same as the kubelet's visitors (VisitPodSecretNames, VisitPodConfigmapNames)."""
    assert references({"spec": spec}) == found
