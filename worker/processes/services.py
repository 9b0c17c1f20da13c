"""The services that this node's activities use, created from its configuration."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from activities.clients.observe import CallObserver
from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.cri_config.security_context import NodeSecurity
from activities.cri_config.service_links import NoServices
from activities.dra.services import NoDynamicResources
from activities.execution.timings import Timings
from activities.hardware.services import Hardware, NoHardware
from activities.images.image_pulls import ImagePulls
from activities.machine.cgroups import Cgroups, CgroupSettings
from activities.machine.node_capacity import this_node, throttle_paths
from activities.node_services import NodeServices, ignore_pull
from activities.objects.pod_certificates import NoPodCertificates
from activities.objects.tokens import NoTokens
from activities.objects.trust_bundles import NoTrustBundles, TrustBundleSource
from activities.probes.outcome import ReadinessListener, ignore_outcome, ignore_readiness
from activities.sandbox.user_namespaces import UserNamespaces
from activities.settings.activity_settings import ActivitySettings
from activities.volumes.plugin.selinux import default_file_label
from proto.image_collection import ignore_step
from proto.kubernetes.resources.node_resources import MemoryQos, NodeResources
from proto.volume_events import ignore_volume
from worker.daemon.config import NodeConfig
from worker.events.collection_events import CollectionEvents
from worker.host.image_access import image_logins, pull_rights
from worker.machine.cgroup_driver import recorded_names
from worker.machine.machine import own_labels
from worker.objects.folder import ObjectFolder
from worker.settings.kubelet.feature_gates import MEMORY_QOS_GATE, QUOTA_GATE, SELINUX_MOUNT_GATE, TRUST_BUNDLES_GATE
from worker.settings.reserved import allocatable, allocatable_resources
from worker.settings.user_namespaces import id_ranges

if TYPE_CHECKING:
    from activities.clients.api_server.api_server import ApiServer
    from worker.api_objects.cluster_objects import ClusterObjects
    from worker.processes.cluster_worker import ClusterWorker

UNLIMITED: Final = 1000
"""Concurrent pulls if maxParallelImagePulls sets no limit: more than a node has pods."""


def pods_cgroups(config: NodeConfig, timings: Timings | None = None) -> Cgroups:
    """Return the cgroups of this node's pods, by the driver that was settled."""
    return Cgroups(
        recorded_names(config.state_dir, config.cgroup_root),
        settings=CgroupSettings(config.pod_pids_limit, memory_qos=config.feature_gates.enabled(MEMORY_QOS_GATE)),
        timings=timings,
    )


def node_services(  # noqa: PLR0913 - the parts of the process that activities share
    config: NodeConfig,
    *calls: CallObserver,
    cgroups: Cgroups,
    api: "ApiServer | None" = None,
    cluster: "ClusterWorker | None" = None,
    timings: Timings | None = None,
    hardware: Hardware | None = None,
    readiness: ReadinessListener = ignore_readiness,
) -> NodeServices:
    """Create them; connects to nothing yet.

    `calls` observe every CRI call, `timings` the duration of steps; `cluster` is None on a standalone node.
    `readiness` gets the results of readiness probes, `hardware` chooses what containers have to themselves.
    """
    objects = cluster.objects if cluster else None
    return NodeServices(
        settings=activity_settings(config),
        api=api,
        pod_objects=cluster.keeper if cluster else None,
        probe_listener=cluster.events.probed if cluster else ignore_outcome,
        readiness_listener=readiness,
        pull_started=cluster.events.pull_started if cluster else ignore_pull,
        collection_step=CollectionEvents(cluster.tell_of_node).heard if cluster else ignore_step,
        volume_changed=cluster.tell_of_volume if cluster else ignore_volume,
        runtime=RuntimeClient(config.container_runtime_endpoint, StartLimit(config.start_limit), calls),
        cgroups=cgroups,
        timings=timings or Timings(),
        hardware=hardware or NoHardware(),
        dynamic_resources=cluster.claims.manager if cluster else NoDynamicResources(),
        user_namespaces=UserNamespaces(id_ranges(config.user_ids_per_pod, config.max_pods)),
        pulls=ImagePulls(config.pulls.parallel or UNLIMITED, qps=config.pulls.qps, burst=config.pulls.burst),
        objects=objects.source if objects else ObjectFolder(config.objects_dir),
        tokens=objects.tokens if objects else NoTokens(),
        trust_bundles=_trust_bundles(config, objects),
        pod_certificates=(cluster.certificates if cluster else None) or NoPodCertificates(),
        service_links=objects if objects else NoServices(),
        logins=image_logins(config),
        pull_rights=pull_rights(config),
    )


def _trust_bundles(config: NodeConfig, objects: "ClusterObjects | None") -> TrustBundleSource:
    """Give pods the cluster's trust bundles if the gate is on, which it is not by default."""
    return objects.trust_bundles if objects and config.feature_gates.enabled(TRUST_BUNDLES_GATE) else NoTrustBundles()


def activity_settings(config: NodeConfig) -> ActivitySettings:
    """Return the settings that activities need."""
    return ActivitySettings(
        root_dir=config.root_dir,
        node_name=config.node_name,
        node_labels=own_labels(config.node_name),
        pod_logs_dir=config.pod_logs_dir,
        legacy_container_logs_dir=config.tempolet.logs.legacy_container_logs_dir,
        cluster_dns=config.dns.cluster_dns,
        cluster_domain=config.dns.cluster_domain,
        resolv_conf=Path(config.dns.resolv_conf) if config.dns.resolv_conf else None,
        allocatable=allocatable_resources(config.reserved, config.eviction, config.root_dir),
        security=NodeSecurity(config.seccomp_default, str(config.root_dir / "seccomp"), throttle_paths()),
        resources=node_resources(config),
        selinux_file_label=default_file_label(),
        selinux_mount=config.feature_gates.enabled(SELINUX_MOUNT_GATE),
        monitors_quotas=config.feature_gates.enabled(QUOTA_GATE),
    )


def node_resources(config: NodeConfig) -> NodeResources:
    """Return what pods' resource figures depend on: the machine's capacity and its configuration."""
    found, memory = this_node(), config.memory
    quality = None
    if config.feature_gates.enabled(MEMORY_QOS_GATE) and found.cgroup_v2:
        quality = MemoryQos(
            throttling_factor=memory.throttling_factor,
            tiered=memory.tiered,
            allocatable=allocatable(config.reserved).memory_bytes,
            page_size=os.sysconf("SC_PAGE_SIZE"),
        )
    return replace(
        found,
        cpu_cfs_quota=config.cpu_cfs_quota,
        cpu_cfs_quota_period=config.cpu_cfs_quota_period,
        single_process_oom_kill=memory.single_process_oom_kill,
        swap=replace(found.swap, limited=memory.limited_swap),
        memory_qos=quality,
    )
