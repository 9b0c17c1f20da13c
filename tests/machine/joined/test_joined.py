"""A booted machine joins a cluster by `tempolet join`, as its units and with the systemd driver: do its pods have what the API says?

The tests share one node; the last one leaves.
"""

import json
from typing import Any, Final

import pytest

from tests.cluster.cluster_node import condition
from tests.machine.joined.node import NAME, Joined, scope_of, slice_of

essential = pytest.mark.machine(essential=True)
MIB: Final = 1 << 20
UNITS: Final = ("tempolet-worker", "tempolet-poller", "tempolet-node")
REFUSED: Final = "Read-only file system|Permission denied|Operation not permitted"
"""What a unit says that may do less than it must."""
PROFILE: Final = """\
profile of-the-test flags=(attach_disconnected) {
  file,
  capability,
  network,
  signal,
  ptrace,
  deny /denied w,
}
"""
CGROUPFS: Final = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
authentication: {x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
"""
LIMITED: Final = {
    "requests": {"cpu": "100m", "memory": "32Mi", "hugepages-2Mi": "4Mi"},
    "limits": {"cpu": "210m", "memory": "64Mi", "hugepages-2Mi": "4Mi"},
}
HUNGRY: Final = {"cpu": "200m", "memory": "32Mi"}
SLEEP: Final = "trap 'exit 0' TERM; sleep 3600 & wait $!"
PODS: Final[dict[str, tuple[str, Any, dict[str, Any]]]] = {
    "limited": (SLEEP, LIMITED, {}),
    "hungry": ("tail /dev/zero; sleep 3600", {"requests": HUNGRY, "limits": HUNGRY}, {"restartPolicy": "Never"}),
    "forking": ("(i=0; while [ $i -lt 300 ]; do sleep 3600 & i=$((i+1)); done); exec sleep 3600", None, {}),
    "confined": (
        "touch /denied || touch /allowed; exec sleep 3600",
        None,
        {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "of-the-test"}}},
    ),
    "unconfinable": (
        SLEEP,
        None,
        {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "nowhere"}}},
    ),
    "remapped": (SLEEP, None, {"hostUsers": False}),
}
"""Each pod's command, its container's resources, and what else it has."""


@pytest.fixture(scope="module")
def pods(joined: Joined) -> Joined:
    """Create all pods at once: each start takes ten seconds, and they may overlap."""
    joined.machine.put(PROFILE.encode(), "/etc/apparmor.d/of-the-test")
    joined.machine.run("apparmor_parser -r /etc/apparmor.d/of-the-test; rm /etc/apparmor.d/of-the-test")
    for name, (command, resources, spec) in PODS.items():
        joined.create(name, command, resources, **spec)
    return joined


@essential
def test_it_has_joined(joined: Joined) -> None:
    """The node is Ready; a second join changes nothing; the units run confined, without an error of it."""
    node = joined.plane.api.get(f"/api/v1/nodes/{NAME}")
    assert condition(node, "Ready") == "True"
    assert node["status"]["capacity"]["hugepages-2Mi"] == "16Mi"
    assert "nothing had to be changed" in joined.join().stdout
    for unit in UNITS:
        shown = joined.machine.run(f"systemctl show -p ActiveState,UnitFileState,NRestarts {unit}").stdout.split()
        assert sorted(shown) == ["ActiveState=active", "NRestarts=0", "UnitFileState=enabled"], unit


@essential
def test_a_driver_that_differs_is_refused(joined: Joined) -> None:
    """By both sides' names, before anything is changed: containerd 1.7 cannot tell its driver, and has systemd."""
    joined.machine.put(CGROUPFS.encode(), "/run/cgroupfs.yaml")
    refused = joined.join("--config", "/run/cgroupfs.yaml", check=False)
    assert refused.code == 2
    assert "nothing was changed: cgroupDriver: cgroupfs, but containerd's handler runc uses systemd" in refused.stderr
    joined.machine.run("! grep cgroupfs /etc/tempolet/kubelet.yaml")


@essential
def test_pod_and_container_have_their_limits(pods: Joined) -> None:
    """By runc's scope in the kubelet's slice: CPU, memory, MemoryQoS, swap, huge pages, pids; a daemon-reload changes nothing.

    Huge pages are the pod's alone: containerd has disable_hugetlb_controller by default.
    """
    pod = pods.running("limited")
    capacity, swap = _memory_of(pods)
    of_pod = {
        "cpu.max": "21000 100000",
        "memory.max": str(64 * MIB),
        "memory.low": str(32 * MIB),
        "pids.max": "200",
        "hugetlb.2MB.max": str(4 * MIB),
        "hugetlb.2MB.rsvd.max": str(4 * MIB),
    }
    of_container = {
        "cpu.max": "21000 100000",
        "memory.max": str(64 * MIB),
        "memory.low": str(32 * MIB),
        "memory.high": str(int(32 * MIB + 0.9 * 32 * MIB) // 4096 * 4096),
        "memory.swap.max": str(int(32 * MIB / capacity * swap) // 4096 * 4096),
        "memory.oom.group": "1",
    }
    for when in ("made", "reloaded"):
        seen = pods.figures(slice_of(pod)), pods.figures(scope_of(pod))
        assert [
            {name: one.get(name) for name in wanted} for one, wanted in zip(seen, (of_pod, of_container), strict=True)
        ] == [
            of_pod,
            of_container,
        ], when
        pods.machine.run("systemctl daemon-reload")
    tiers = [pods.figures(one) for one in ("/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice")]
    assert int(tiers[0]["memory.min"]) >= 32 * MIB
    assert int(tiers[1]["memory.low"]) == 32 * MIB
    assert (
        int(pods.machine.run(f"cat /proc/$(head -1 /sys/fs/cgroup{scope_of(pod)}/cgroup.procs)/oom_score_adj").stdout)
        > 900
    )


@essential
def test_a_running_container_is_resized(pods: Joined) -> None:
    """In place: the same container has more, and less again."""
    before = pods.running("limited")
    for cpu, memory, quota in (("300m", "96Mi", 30000), ("150m", "48Mi", 15000)):
        limits = {"cpu": cpu, "memory": memory, "hugepages-2Mi": "4Mi"}
        pods.resize("limited", {"requests": LIMITED["requests"], "limits": limits})
        pod = pods.until("limited", lambda one, cpu=cpu, memory=memory: _resized(one, cpu, memory), "it is resized")  # type: ignore[misc]
        assert scope_of(pod) == scope_of(before)
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        pods.machine.run("systemctl daemon-reload")
        for cgroup in (slice_of(pod), scope_of(pod)):
            found = pods.figures(cgroup)
            assert (found["cpu.max"], found["memory.max"]) == (f"{quota} 100000", str(int(memory[:-2]) * MIB))


@essential
def test_an_oom_kill_takes_the_whole_container(pods: Joined) -> None:
    """Not only the process that asked for too much, whose shell would go on."""
    pod = pods.until("hungry", lambda one: one["status"].get("phase") == "Failed", "it has failed")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


@essential
def test_a_pod_has_no_more_processes_than_it_may(pods: Joined) -> None:
    """podPidsLimit, of all its containers together."""
    pod = pods.running("forking")
    pods.machine.run(f"until grep -q 'max [1-9]' /sys/fs/cgroup{slice_of(pod)}/pids.events; do sleep 1; done")
    found = pods.figures(slice_of(pod))
    assert found["pids.max"] == "200"
    assert 190 <= int(found["pids.current"]) <= 200  # the shell that was refused a process has ended
    assert pods.figures(scope_of(pod))["memory.swap.max"] == "0", "swap is for Burstable pods only"


@essential
def test_apparmor_confines(pods: Joined) -> None:
    """By the runtime's profile, by one of the node, and never by one that is not there."""
    for name, profile in (("limited", "cri-containerd.apparmor.d (enforce)"), ("confined", "of-the-test (enforce)")):
        pid = pods.machine.run(f"head -1 /sys/fs/cgroup{scope_of(pods.running(name))}/cgroup.procs").stdout.strip()
        assert pods.machine.run(f"cat /proc/{pid}/attr/current").stdout.strip() == profile
    assert pods.machine.run(f"ls /proc/{pid}/root | grep -E '^(denied|allowed)$'").stdout == "allowed\n"
    pod = pods.until("unconfinable", lambda one: _waiting(one).get("reason") == "CreateContainerError", "it waits")
    assert "nowhere" in _waiting(pod)["message"]


@essential
def test_a_runtime_without_user_namespaces_says_so(pods: Joined) -> None:
    """Debian 13 has runc 1.1, which has none: the pod waits and says why, others run."""
    pods.until("remapped", lambda _: any("user namespaces" in one for one in pods.events("remapped")), "it says why")
    pods.until_gone("remapped")


@essential
def test_statistics_have_pressure_and_swap(pods: Joined) -> None:
    """Of node, pod and container in /stats/summary, and the container's in /metrics/cadvisor."""
    pod = pods.running("limited")
    told = json.loads(pods.ask("/stats/summary"))
    named = {one["podRef"]["name"]: one for one in told["pods"]}
    assert "limited" in named
    mine = named["limited"]
    (container,) = mine["containers"]
    for one in (told["node"], mine, container):
        for resource in ("cpu", "memory", "io"):
            assert one[resource]["psi"]["some"]["total"] >= 0, (one, resource)
        assert one["memory"]["workingSetBytes"] > 0
        assert one["cpu"]["usageCoreNanoSeconds"] > 0
    assert told["node"]["swap"]["swapAvailableBytes"] > 0
    assert "swapUsageBytes" in container["swap"]
    metrics = [line for line in pods.ask("/metrics/cadvisor").splitlines() if f'id="{scope_of(pod)}"' in line]
    families = {line.partition("{")[0] for line in metrics}
    assert {"container_memory_working_set_bytes", "container_pressure_cpu_waiting_seconds_total"} <= families


@essential
def test_a_deleted_pod_leaves_no_cgroup(pods: Joined) -> None:
    """Nor a slice that systemd knows."""
    pod = pods.running("forking")
    pods.until_gone("forking")
    pods.machine.run(f"while [ -e /sys/fs/cgroup{slice_of(pod)} ]; do sleep 1; done")
    assert (
        slice_of(pod).rpartition("/")[2] not in pods.machine.run("systemctl list-units --all --plain '*.slice'").stdout
    )


@essential
def test_no_unit_was_kept_from_anything(pods: Joined) -> None:
    """Their hardening forbids nothing that they have to do."""
    words = " ".join(f"-u {unit}" for unit in UNITS)
    said = pods.machine.run(
        f"journalctl --no-pager -o cat {words} | grep -B 2 -A 40 -E '{REFUSED}' | head -200", check=False
    )
    assert said.stdout == ""


@essential
def test_it_leaves_nothing(joined: Joined) -> None:
    """The services stop, the pods end, and what join and the services made is gone."""
    before = joined.left_before
    assert "left. Now: kubectl delete node machine" in joined.machine.run("tempolet leave --yes --purge").stdout
    assert joined.left() == before


def _memory_of(node: Joined) -> tuple[int, int]:
    """Return the machine's memory and swap, in bytes."""
    words = node.machine.run("awk '/^(MemTotal|SwapTotal):/ {print $2}' /proc/meminfo").stdout.split()
    return int(words[0]) * 1024, int(words[1]) * 1024


def _resized(pod: Any, cpu: str, memory: str) -> bool:
    limits = pod["status"]["containerStatuses"][0].get("resources", {}).get("limits", {})
    return (limits.get("cpu"), limits.get("memory")) == (cpu, memory) and not condition(pod, "PodResizeInProgress")


def _waiting(pod: Any) -> dict[str, str]:
    statuses = pod["status"].get("containerStatuses") or [{}]
    waiting: dict[str, str] = statuses[0].get("state", {}).get("waiting", {})
    return waiting
