"""What `test_pods` runs beside a real systemd, and a containerd that uses its cgroups: the activities of a pod's life.

It prints what it saw.
"""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.containers.resize import ResizeActivities
from activities.images.image_pulls import ImagePulls
from activities.machine.cgroup_names import unit
from activities.machine.cgroups import Cgroups, CgroupSettings
from activities.node_services import NodeServices
from activities.settings.activity_settings import ActivitySettings
from proto.kubernetes.resources.qos import QosClass
from proto.temporal.activities.requests import RemovePodDirectories, RunPodSandbox, StopContainer
from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from proto.temporal.pod import PodJson, PodKey
from tests.node.acting import Acting, sandbox_spec, start_request
from tests.node.cgroup_view import limits
from worker.daemon.config import NodeConfig
from worker.processes.cgroup_driver import settled_names
from worker.stats.node_stats import NodeStats

BURSTABLE: Final = QosClass.BURSTABLE
POD_PIDS: Final = 200


def resources(cpu: str, memory: str) -> PodJson:
    """Build requests and limits."""
    return {"requests": {"cpu": "50m", "memory": "8Mi"}, "limits": {"cpu": cpu, "memory": memory}}


def spec_of(pod: PodKey, cpu: str, memory: str) -> PodJson:
    """Build the sandbox's part of the spec of a pod on the host's network, which needs no CNI."""
    spec = sandbox_spec(pod)
    spec["spec"]["hostNetwork"] = True
    spec["spec"]["containers"][0]["resources"] = resources(cpu, memory)
    return spec


def figures(cgroup: str) -> list[int]:
    """Read shares or weight, quota, memory."""
    found = limits(cgroup)
    return [found.shares, found.quota, found.memory]


def loaded() -> list[str]:
    """List the slices and scopes of pods that systemd knows."""
    argv = ("systemctl", "--no-pager", "list-units", "--all", "--plain", "--no-legend", "kubepods*", "cri-containerd*")
    return sorted(line.split()[0] for line in subprocess.run(argv, capture_output=True, text=True).stdout.splitlines())  # noqa: PLW1510 - an empty list says it


def reload() -> None:
    """Make systemd read its units again."""
    subprocess.run(("systemctl", "daemon-reload"), check=True)


class Life:
    """One pod, and what was seen of it."""

    def __init__(self, acting: Acting, config: NodeConfig) -> None:
        self.acting, self.config, self.services = acting, config, acting.services
        self.pod = acting.pod()
        self.cgroup = self.services.cgroups.pod_cgroup(self.pod.uid, BURSTABLE)
        self.spec = spec_of(self.pod, "210m", "64Mi")
        self.seen: dict[str, Any] = {"driver": self.services.cgroups.names.driver, "slice": unit(self.cgroup)}

    async def start(self) -> None:
        """Start sandbox and container."""
        acting, request = self.acting, RunPodSandbox(self.pod, 0, self.spec, ("web",))
        self.sandbox = await acting.run(acting.sandboxes.run_pod_sandbox, request)
        start = start_request(self.pod, self.sandbox, resources=resources("210m", "64Mi"))
        self.web = await acting.run(acting.containers.start_container, replace(start, sandbox_spec=self.spec))
        self.scope = f"{self.cgroup}/cri-containerd-{self.web.container_id}.scope"
        both = (self.sandbox.sandbox_id, self.web.container_id)
        self.seen |= {"units": loaded(), "scopes": [f"cri-containerd-{one}.scope" for one in both]}
        self.look("")
        reload()
        self.look(" reloaded")

    def look(self, when: str) -> None:
        """Read the limits of pod and container."""
        self.seen |= {f"pod{when}": figures(self.cgroup), f"container{when}": figures(self.scope)}

    async def resize(self) -> None:
        """Raise what both have."""
        acting, resize, (cpu, memory) = self.acting, ResizeActivities(self.services), ("300m", "96Mi")
        self.spec = spec_of(self.pod, cpu, memory)
        grown = UpdatePodSandboxResources(self.pod, self.sandbox.sandbox_id, self.spec, growing=True)
        part = {"name": "web", "resources": resources(cpu, memory)}
        await acting.run(resize.update_pod_sandbox_resources, grown)
        update = UpdateContainerResources(self.pod, "web", self.web.container_id, part, self.spec)
        await acting.run(resize.update_container_resources, update)
        await acting.run(resize.update_pod_sandbox_resources, replace(grown, growing=False))
        reload()
        self.look(" resized")

    async def measure(self) -> None:
        """Run a command inside, and read the statistics."""
        runtime = self.services.runtime
        self.seen["exec"] = (await runtime.exec_sync(self.web.container_id, ("echo", "here"), 10)).stdout.decode()
        stats = NodeStats(self.config, runtime)
        pods = json.loads(await stats.summary())["pods"]
        self.seen["summary"] = [
            [one["name"], one["memory"]["workingSetBytes"] > 0] for told in pods for one in told["containers"]
        ]
        self.seen["cadvisor"] = f'id="{self.scope}"' in (await stats.cadvisor()).decode()

    async def take_too_much(self) -> None:
        """Stop the container, and start one that takes all memory."""
        acting, runtime = self.acting, self.services.runtime
        stop = StopContainer(self.pod, "web", self.web.container_id, timedelta(), datetime.now(UTC), "the test says so")
        await acting.run(acting.containers.stop_container, stop)
        hog = {"command": ["sh", "-c", "a=x; while :; do a=$a$a; done"], "resources": resources("300m", "96Mi")}
        start = start_request(self.pod, self.sandbox, attempt=1, **hog)
        hungry = await acting.run(acting.containers.start_container, replace(start, sandbox_spec=self.spec))
        async for _ in runtime.container_events():
            status = await runtime.container_status(hungry.container_id)
            if status.reason:
                self.seen["hog"] = [status.reason, status.exit_code]
                return

    async def end(self) -> None:
        """Remove everything, the last step twice."""
        acting, runtime, cgroups = self.acting, self.services.runtime, self.services.cgroups
        await runtime.stop_pod_sandbox(self.sandbox.sandbox_id)
        await runtime.remove_pod_sandbox(self.sandbox.sandbox_id)
        for _ in range(2):
            request = RemovePodDirectories(self.pod, "Burstable")
            await acting.run(acting.directories.remove_pod_directories, request)
        self.seen["left"] = loaded()
        cgroups.remove_tiers()
        self.seen["at last"] = loaded()


async def main(endpoint: str, folder: Path) -> None:
    """Go through the life of a pod, as workflows would let the activities do it."""
    config = NodeConfig(
        "n", root_dir=folder / "kubelet", pod_logs_dir=folder / "logs", container_runtime_endpoint=endpoint
    )
    config.state_dir.mkdir(parents=True)
    runtime = RuntimeClient(endpoint, StartLimit(4))
    cgroups = Cgroups(await settled_names(config, runtime), settings=CgroupSettings(POD_PIDS))
    settings = ActivitySettings(root_dir=config.root_dir, pod_logs_dir=config.pod_logs_dir)
    life = Life(Acting(NodeServices(settings=settings, runtime=runtime, cgroups=cgroups, pulls=ImagePulls())), config)
    cgroups.make_tiers()
    for step in (life.start, life.resize, life.measure, life.take_too_much, life.end):
        await step()
    await runtime.close()
    json.dump(life.seen, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
