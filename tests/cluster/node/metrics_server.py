"""Runs the real metrics-server beside a control plane, with the aggregated API that `kubectl top` uses.

It is not part of the repository: `$TEMPOLET_METRICS_SERVER` names a program, built with
`go install sigs.k8s.io/metrics-server/cmd/metrics-server@v0.9.0` (three minutes on two cores).
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.cluster.control_plane import ControlPlane

VARIABLE: Final = "TEMPOLET_METRICS_SERVER"
GROUP: Final = "/apis/metrics.k8s.io/v1beta1"
RESOLUTION: Final = "10s"
_NAMESPACE: Final = "kube-system"
_NAME: Final = "metrics-server"


def aggregating(pki: Path) -> list[str]:
    """Return the flags with which an API server aggregates another one."""
    return [
        *("--enable-aggregator-routing=true", "--requestheader-client-ca-file", str(pki / "ca.crt")),
        *("--proxy-client-cert-file", str(pki / "kubeletclient.crt")),
        *("--proxy-client-key-file", str(pki / "kubeletclient.key")),
        *("--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group"),
        *("--requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        *("--requestheader-allowed-names", "kube-apiserver-kubelet-client"),
    ]


@contextlib.contextmanager
def metrics_server(plane: ControlPlane, address: str, port: int, log: Path) -> Iterator[None]:
    """Run it on an address that is not loopback, and register its API, while the block runs."""
    pki, kubeconfig = plane.pki, plane.admin_kubeconfig
    argv: list[str | Path] = [
        os.environ[VARIABLE],
        *("--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig),
        *("--authorization-kubeconfig", kubeconfig, "--client-ca-file", pki / "ca.crt"),
        *("--kubelet-client-certificate", pki / "kubeletclient.crt", "--kubelet-client-key", pki / "kubeletclient.key"),
        *(
            "--kubelet-insecure-tls",
            "--kubelet-use-node-status-port",
            "--metric-resolution",
            RESOLUTION,
            "--kubelet-request-timeout",
            "5s",
        ),
        *("--kubelet-preferred-address-types", "InternalIP", "--bind-address", address, "--secure-port", str(port)),
        *("--cert-dir", log.parent / "metrics-server-certificates"),
    ]
    with log.open("wb") as output, subprocess.Popen(argv, stdout=output, stderr=output) as process:
        try:
            _register(plane, address, port)
            yield
        finally:
            process.terminate()


def _register(plane: ControlPlane, address: str, port: int) -> None:
    service: dict[str, Any] = {"metadata": {"name": _NAME}, "spec": {"ports": [{"port": 443, "targetPort": port}]}}
    plane.api.create(f"/api/v1/namespaces/{_NAMESPACE}/services", service)
    plane.api.create(
        f"/apis/discovery.k8s.io/v1/namespaces/{_NAMESPACE}/endpointslices",
        {
            "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{"port": port}],
        },
    )
    plane.api.create(
        "/apis/apiregistration.k8s.io/v1/apiservices",
        {
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "service": {"namespace": _NAMESPACE, "name": _NAME},
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
    )
