"""The CRI configuration of a sandbox and of a container, built from the pod's JSON; pure.

Labels, annotations, log paths and defaults are the kubelet's (kuberuntime labels.go, kuberuntime_sandbox.go,
kuberuntime_container.go), so that crictl, cAdvisor and a kubelet that takes over the node can read them, and so that
our own state can be rebuilt from them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from activities.cri_config.environment import expand
from activities.cri_config.stop_signals import cri_signal
from activities.network.hostnames import kernel_hostname
from activities.network.network import on_host_network, port_mappings
from proto.cri.labels import (
    CONTAINER_HASH,
    CONTAINER_NAME,
    CONTAINER_PORTS,
    POD_GRACE,
    POD_NAME,
    POD_NAMESPACE,
    POD_UID,
    PRE_STOP_HANDLER,
    RESTART_COUNT,
    TERMINATION_MESSAGE_PATH,
    TERMINATION_MESSAGE_POLICY,
)
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.container_hash import container_hash
from proto.kubernetes.resources.resources import ContainerResources
from proto.temporal.pod import PodKey

_PORT_FIELDS: Final = ("name", "hostPort", "containerPort", "protocol", "hostIP")  # v1.ContainerPort's order


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInputs:
    """The inputs of a sandbox's configuration."""

    key: PodKey
    pod: Mapping[str, Any]
    attempt: int
    log_directory: str
    cgroup_parent: str
    dns: cri.DNSConfig
    resources: ContainerResources
    security: cri.LinuxSandboxSecurityContext
    sysctls: Mapping[str, str] = field(default_factory=dict)
    overhead: ContainerResources | None = None
    """The pod's overhead."""
    cluster_domain: str = ""
    """KubeletConfiguration clusterDomain, for pods with a subdomain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerInputs:
    """The inputs of a container's configuration."""

    key: PodKey
    pod: Mapping[str, Any]
    container: Mapping[str, Any]
    attempt: int
    image_ref: str
    resources: ContainerResources
    security: cri.LinuxContainerSecurityContext
    environment: Mapping[str, str] = field(repr=False)
    """Resolved values: they go to the runtime and nowhere else."""
    mounts: Sequence[cri.Mount] = ()
    devices: Sequence[cri.Device] = ()
    cpuset_cpus: str = ""
    """The CPUs that it may use; empty: all."""
    cpuset_mems: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Those of device plugins."""
    cdi_devices: Sequence[str] = ()


def pod_labels(key: PodKey) -> dict[str, str]:
    """Return the labels that identify a pod."""
    return {POD_NAME: key.name, POD_NAMESPACE: key.namespace, POD_UID: key.uid}


def container_labels(key: PodKey, container: str) -> dict[str, str]:
    """Return the labels that identify a container, whatever its attempt."""
    return {**pod_labels(key), CONTAINER_NAME: container}


def sandbox_config(inputs: SandboxInputs) -> cri.PodSandboxConfig:
    """Build a sandbox's configuration."""
    pod, key = inputs.pod, inputs.key
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=key.name, namespace=key.namespace, uid=key.uid, attempt=inputs.attempt),
        hostname="" if on_host_network(pod) else kernel_hostname(pod, inputs.cluster_domain),
        log_directory=inputs.log_directory,
        dns_config=inputs.dns,
        port_mappings=port_mappings(spec.get("containers") or ()),
        labels={**(metadata.get("labels") or {}), **pod_labels(key)},
        annotations=metadata.get("annotations") or {},
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=inputs.cgroup_parent,
            security_context=inputs.security,
            sysctls=inputs.sysctls,
            overhead=linux_resources(inputs.overhead) if inputs.overhead else cri.LinuxContainerResources(),
            resources=linux_resources(inputs.resources),
        ),
    )


def container_config(inputs: ContainerInputs) -> cri.ContainerConfig:
    """Build a container's configuration; references in command and arguments are expanded."""
    container, environment = inputs.container, inputs.environment
    name = str(container["name"])
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=name, attempt=inputs.attempt),
        image=cri.ImageSpec(image=inputs.image_ref, user_specified_image=container["image"]),
        command=[expand(word, environment) for word in container.get("command") or ()],
        args=[expand(word, environment) for word in container.get("args") or ()],
        working_dir=container.get("workingDir") or "",
        envs=[
            cri.KeyValue(key=key, value=value.encode(errors="surrogateescape")) for key, value in environment.items()
        ],
        mounts=_mapped(inputs.mounts, inputs.security.namespace_options.userns_options),
        devices=inputs.devices,
        CDI_devices=[cri.CDIDevice(name=one) for one in inputs.cdi_devices],
        labels=container_labels(inputs.key, name),
        annotations={**inputs.annotations, **_container_annotations(inputs.pod, container, inputs.attempt)},
        log_path=f"{name}/{inputs.attempt}.log",
        stdin=bool(container.get("stdin")),
        stdin_once=bool(container.get("stdinOnce")),
        tty=bool(container.get("tty")),
        stop_signal=cri_signal((container.get("lifecycle") or {}).get("stopSignal") or ""),
        linux=cri.LinuxContainerConfig(
            resources=linux_resources(inputs.resources, inputs.cpuset_cpus, inputs.cpuset_mems),
            security_context=inputs.security,
        ),
    )


def _mapped(mounts: Sequence[cri.Mount], users: cri.UserNamespace) -> list[cri.Mount]:
    """Map the IDs of mounts to the pod's user namespace if it has one, so that files keep their owners."""
    mapped = []
    for mount in mounts:
        own = cri.Mount()
        own.CopyFrom(mount)
        own.uidMappings.extend(users.uids)
        own.gidMappings.extend(users.gids)
        mapped.append(own)
    return mapped


def _container_annotations(pod: Mapping[str, Any], container: Mapping[str, Any], attempt: int) -> dict[str, str]:
    annotations = {
        CONTAINER_HASH: container_hash(str(container["name"]), container.get("image") or ""),
        RESTART_COUNT: str(attempt),
        TERMINATION_MESSAGE_PATH: container.get("terminationMessagePath") or "",
        TERMINATION_MESSAGE_POLICY: container.get("terminationMessagePolicy") or "",
    }
    grace = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    if grace is not None:
        annotations[POD_GRACE] = str(grace)
    if pre_stop := (container.get("lifecycle") or {}).get("preStop"):
        annotations[PRE_STOP_HANDLER] = json.dumps(pre_stop, separators=(",", ":"))
    if ports := container.get("ports"):
        shown = [{key: port[key] for key in _PORT_FIELDS if port.get(key)} for port in ports]
        annotations[CONTAINER_PORTS] = json.dumps(shown, separators=(",", ":"))
    return annotations


def linux_resources(
    resources: ContainerResources, cpuset_cpus: str = "", cpuset_mems: str = ""
) -> cri.LinuxContainerResources:
    """Convert the resources of a sandbox or a container, for its creation and for a resize, which changes no set."""
    return cri.LinuxContainerResources(
        cpu_shares=resources.cpu_shares,
        cpu_quota=resources.cpu_quota,
        cpu_period=resources.cpu_period,
        memory_limit_in_bytes=resources.memory_limit_in_bytes,
        oom_score_adj=resources.oom_score_adj,
        memory_swap_limit_in_bytes=resources.memory_swap_limit_in_bytes,
        hugepage_limits=[cri.HugepageLimit(page_size=size, limit=limit) for size, limit in resources.hugepage_limits],
        unified=resources.unified,
        cpuset_cpus=cpuset_cpus,
        cpuset_mems=cpuset_mems,
    )
