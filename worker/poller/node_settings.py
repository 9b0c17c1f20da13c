"""The node's configuration and machine in a pod workflow's input, so that a replay sees the same values."""

import os

from activities.files.selinux import selinux_enabled
from activities.machine.node_capacity import apparmor_enabled
from proto.temporal.pod import NodeSettings
from worker.daemon.config import NodeConfig
from worker.machine.addresses import pod_host_addresses
from worker.settings.kubelet.feature_gates import IMAGE_DIGEST_GATE, STOP_SIGNALS_GATE
from worker.settings.reserved import allocatable


def node_settings(config: NodeConfig) -> NodeSettings:
    """Collect the settings; reads the kernel release, the capacity and whether AppArmor and SELinux are enabled."""
    return NodeSettings(
        max_container_restart_period=config.max_container_restart_period,
        host_ips=pod_host_addresses(config.node_ips, config.node_name, cluster=config.cluster is not None),
        container_stop_signals=config.feature_gates.enabled(STOP_SIGNALS_GATE),
        allocatable=allocatable(config.reserved),
        kernel=".".join(os.uname().release.split(".")[:2]),
        allowed_unsafe_sysctls=config.allowed_unsafe_sysctls,
        apparmor=apparmor_enabled(),
        selinux=selinux_enabled(),
        image_volume_with_digest=config.feature_gates.enabled(IMAGE_DIGEST_GATE),
    )
