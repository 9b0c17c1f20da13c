"""What Kubernetes this node is, for dashboards and for the alert about nodes of several versions: version and feature gates."""

import platform
from typing import Final

from prometheus_client import CollectorRegistry

from activities.machine.node_capacity import architecture
from worker.settings.kubelet.feature_gates import FeatureGates
from worker.settings.kubelet.schema import load_schema
from worker.telemetry.kubelet.families import BETA, Families

_STABLE: Final = "GA"


def show_release(registry: CollectorRegistry, version: str, gates: FeatureGates) -> None:
    """Show the node's kubeletVersion, and which gates are on."""
    made = Families(registry, BETA)
    built = made.gauge(
        "kubernetes_build_info",
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go "
        "version, and compiler from which Kubernetes was built, and platform on which it is running.",
        *("major", "minor", "git_version", "git_commit", "git_tree_state"),
        *("build_date", "go_version", "compiler", "platform"),
    )
    major, minor, *_ = load_schema().version.removeprefix("v").split(".")
    on = f"linux/{architecture()}"
    built.labels(major, minor, version, "", "", "", "", platform.python_implementation().lower(), on).set(1)
    enabled = made.gauge(
        "kubernetes_feature_enabled",
        "This metric records the data about the stage and enablement of a k8s feature.",
        *("name", "stage"),
    )
    for name, spec in load_schema().feature_gates.items():
        stage = "" if spec["stage"] == _STABLE else spec["stage"]
        enabled.labels(name, stage).set(gates.enabled(name))
