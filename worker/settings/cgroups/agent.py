"""The node's own processes: in which cgroups they run, how willing the kernel is to kill them, how many files they may open.

The rules and their words are the kubelet's (apis/config/validation/validation.go, cm/container_manager_linux.go setupNode,
cmd/kubelet/app/server.go). `worker/machine/process_limits.py` and `worker/host/cgroups/system_cgroups.py` carry them out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from worker.settings.kubelet.configuration import KubeletConfiguration

_ROOT: Final = "/"


@dataclass(frozen=True, slots=True)
class AgentProcesses:
    """The parsed keys."""

    cgroup: str = ""
    """kubeletCgroups: that of worker, poller and node process; empty: where they were started."""
    system_cgroup: str = ""
    """systemCgroups: that of all processes that are in none; empty: they stay."""
    oom_score_adj: int = -999
    max_open_files: int = 1_000_000


def agent_processes(kubelet: KubeletConfiguration) -> AgentProcesses:
    """Read the validated keys."""
    return AgentProcesses(
        kubelet["kubeletCgroups"] or "", kubelet["systemCgroups"] or "", kubelet["oomScoreAdj"], kubelet["maxOpenFiles"]
    )


def agent_breaches(kubelet: KubeletConfiguration) -> Iterator[str]:
    """List the values that are out of bounds, and what contradicts another key."""
    if kubelet["systemCgroups"] and not kubelet["cgroupRoot"]:
        yield "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified"
    if kubelet["systemCgroups"] == _ROOT:
        yield 'systemCgroups: system container cannot be root ("/")'
    for key in ("kubeletCgroups", "systemCgroups"):
        if why := why_upward(key, kubelet[key]):
            yield why
    if (files := kubelet["maxOpenFiles"]) < 0:
        yield f"maxOpenFiles (--max-open-files) {files} must not be a negative number"
    if not -1000 <= (score := kubelet["oomScoreAdj"]) <= 1000:
        yield f"oomScoreAdj (--oom-score-adj) {score} must be between -1000 and 1000, inclusive"


def why_upward(setting: str, cgroup: str | None) -> str:
    """Explain why a setting cannot name this cgroup; empty if it does not lead upward."""
    if ".." in (cgroup or "").split("/"):
        return f"{setting}: {cgroup!r} leads upward; name a cgroup below the machine's root"
    return ""


def agent_warnings(kubelet: KubeletConfiguration) -> Iterator[str]:
    """Say what the kubelet calls unsupported, and does."""
    own, reserved = kubelet["kubeletCgroups"], kubelet["kubeReservedCgroup"]
    if own and reserved and not own.startswith(reserved):
        yield f"kubeletCgroups: {own} is not within kubeReservedCgroup {reserved}, so its limits are not those of the node's own processes"
