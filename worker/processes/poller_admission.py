"""The poller's parts that decide which new pods the node takes, and who is stopped for a critical one."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from proto.kubernetes.resources.extended import is_extended_resource
from proto.node_devices import DeviceCount, read_node_devices
from proto.temporal.pod import NodeSettings, PodJson
from proto.temporal.pod_inputs import Rejected
from worker.daemon.config import NodeConfig
from worker.delivery.pod_requests import PodRequests
from worker.machine.shutdown_sign import ShutdownSign
from worker.poller.admission.node_admission import NodeAdmission
from worker.poller.admission.own_node import OwnNode
from worker.poller.admission.preemptions import PreemptionParts, Preemptions
from worker.poller.admission.under_pressure import UnderPressure
from worker.poller.runtime.known_pods import KnownPods
from workflows.decide.machine_abilities import why_rejected
from workflows.decide.node.hardware_needs import HardwarePolicies
from workflows.decide.shutdown.words import NOT_ADMITTED


def preemptions_for(
    config: NodeConfig,
    settings: NodeSettings,
    known: KnownPods,
    *,
    requests: PodRequests,
    counted: Callable[[str], None],
) -> Preemptions:
    """Return what stops pods for critical ones; `counted` takes the resource that was lacking."""
    return Preemptions(
        PreemptionParts(
            node=config.node_name,
            root_dir=config.root_dir,
            known=known,
            requests=requests,
            counted=counted,
            refuses=partial(why_refused, settings, ShutdownSign(config.state_dir)),
            alone=config.cluster is None,
        )
    )


def admission_alone(
    config: NodeConfig,
    settings: NodeSettings,
    known: KnownPods,
    preemptions: Preemptions,
    *,
    present: Callable[[], Mapping[str, PodJson]],
) -> NodeAdmission:
    """Return the admission of a node without a cluster, where all pods are static; `present` returns those that are listed."""
    return NodeAdmission(
        OwnNode(config),
        known,
        config.feature_gates,
        present,
        settings=settings,
        under_pressure=UnderPressure(config.root_dir, alone=True).why_refused,
        preemptions=preemptions,
    )


def hardware_policies(config: NodeConfig) -> HardwarePolicies:
    """Return what this node gives to one container alone."""
    return HardwarePolicies(
        cpus=config.cpu_manager.static is not None,
        memory=config.memory_manager.idle is not None,
        is_device=partial(is_device, config.root_dir),
    )


def is_device(root_dir: Path, resource: str) -> bool:
    """Report whether a device plugin has a resource, as far as the worker knows."""
    return is_extended_resource(resource) and not read_node_devices(root_dir).get(resource, DeviceCount(gone=True)).gone


def why_refused(settings: NodeSettings, shutdown: ShutdownSign, pod: PodJson) -> Rejected | None:
    """Return why a pod that this node admits would not run here: nobody is stopped for it."""
    why = next(why_rejected(pod, settings), None)
    return why or (NOT_ADMITTED if shutdown.is_set() else None)
