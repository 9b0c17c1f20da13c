"""What `kubeadm init` publishes for machines that join: a token, cluster-info, the kubelet's configuration, and the rights to use them.

For a control plane with `controller_flags=SIGNER`, whose controller-manager signs cluster-info by each token, and approves certificates.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.cluster.control_plane import ControlPlane

TOKEN: Final = "abcdef.0123456789abcdef"
SIGNER: Final = ("--controllers=*,bootstrapsigner,tokencleaner",)
GROUP: Final = "system:bootstrappers:kubeadm:default-node-token"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_CSR: Final = "system:certificates.k8s.io:certificatesigningrequests"


def publish(plane: ControlPlane, server: str = "") -> None:
    """Publish all but the configuration, and wait until cluster-info is signed; `server`: its URL for machines that join."""
    add_token(plane, TOKEN)
    _bind(plane, "kubeadm:kubelet-bootstrap", "system:node-bootstrapper", GROUP)
    _bind(plane, "kubeadm:node-autoapprove-bootstrap", f"{_CSR}:nodeclient", GROUP)
    _bind(plane, "kubeadm:node-autoapprove-certificate-rotation", f"{_CSR}:selfnodeclient", "system:nodes")
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    plane.api.create(f"{_RBAC}/clusterroles", {"metadata": {"name": "kubeadm:get-nodes"}, "rules": [nodes]})
    _bind(plane, "kubeadm:get-nodes", "kubeadm:get-nodes", GROUP)
    _allow(plane, "kube-system", "kubelet-config", GROUP, "system:nodes")
    _allow(plane, "kube-public", "cluster-info", "system:unauthenticated")
    authority = base64.b64encode((plane.pki / "ca.crt").read_bytes()).decode()
    cluster = {"server": server or plane.server, "certificate-authority-data": authority}
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]}
    _config_map(plane, "kube-public", "cluster-info", {"kubeconfig": json.dumps(config)})
    signature = f"jws-kubeconfig-{TOKEN.split('.')[0]}"
    plane.api.until(
        "/api/v1/namespaces/kube-public/configmaps/cluster-info",
        lambda found: signature in found["data"],
        "it is signed",
    )


def publish_configuration(plane: ControlPlane, kubelet: Mapping[str, Any]) -> None:
    """Publish this KubeletConfiguration in place of an earlier one."""
    text = json.dumps({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **kubelet})
    plane.api.delete("/api/v1/namespaces/kube-system/configmaps/kubelet-config")
    _config_map(plane, "kube-system", "kubelet-config", {"kubelet": text})


def publish_kubeadms_own(plane: ControlPlane, server: str) -> None:
    """Publish what `kubeadm join` itself reads besides."""
    cluster = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "controlPlaneEndpoint": server.removeprefix("https://"),
        "kubernetesVersion": "v1.36.3",
    }
    _allow(plane, "kube-system", "kubeadm-config", GROUP, "system:nodes")
    _config_map(plane, "kube-system", "kubeadm-config", {"ClusterConfiguration": json.dumps(cluster)})


def add_token(plane: ControlPlane, token: str, *, authentication: bool = True) -> None:
    """Create a token, as `kubeadm token create` does."""
    identity, secret = token.split(".")
    data = {
        "token-id": identity,
        "token-secret": secret,
        "usage-bootstrap-authentication": str(authentication).lower(),
        "usage-bootstrap-signing": "true",
        "auth-extra-groups": GROUP,
    }
    made = {
        "metadata": {"name": f"bootstrap-token-{identity}"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }
    plane.api.create("/api/v1/namespaces/kube-system/secrets", made)


def ca_hash(plane: ControlPlane) -> str:
    """Return the hash of the cluster's CA, as `kubeadm token create --print-join-command` prints it."""
    key = x509.load_pem_x509_certificate((plane.pki / "ca.crt").read_bytes()).public_key()
    return f"sha256:{hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()}"


def _config_map(plane: ControlPlane, namespace: str, name: str, data: Mapping[str, str]) -> None:
    plane.api.until(f"/api/v1/namespaces/{namespace}", bool)
    plane.api.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": name}, "data": dict(data)})


def _bind(plane: ControlPlane, name: str, role: str, group: str) -> None:
    binding = {"metadata": {"name": name}, "roleRef": _role("ClusterRole", role), "subjects": [_group(group)]}
    plane.api.create(f"{_RBAC}/clusterrolebindings", binding)


def _allow(plane: ControlPlane, namespace: str, config_map: str, *groups: str) -> None:
    """Let groups read one ConfigMap."""
    plane.api.until(f"/api/v1/namespaces/{namespace}", bool)
    name = f"kubeadm:{config_map}"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [config_map], "verbs": ["get"]}
    plane.api.create(f"{_RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": name}, "rules": [rule]})
    binding = {
        "metadata": {"name": name},
        "roleRef": _role("Role", name),
        "subjects": [_group(one) for one in groups],
    }
    plane.api.create(f"{_RBAC}/namespaces/{namespace}/rolebindings", binding)


def _role(kind: str, name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}


def _group(name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}
