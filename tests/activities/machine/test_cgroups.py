"""Do pods get the kubelet's cgroups and limits on v1 and v2, and does a removal stay within them?"""

from pathlib import Path

import pytest

from activities.files.pod_paths import UnsafeName
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups, CgroupSettings
from proto.kubernetes.resources.qos import QosClass
from proto.kubernetes.resources.resources import PodResources

V1_MOUNTS = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""
V2_MOUNTS = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
OF_A_UNIT = "cgroup2 /sys/fs/cgroup/system.slice/tempolet-node.service/memory.pressure cgroup2 rw,nosuid 0 0\n"
"""What systemd 254 and newer adds for a unit with ProtectControlGroups."""
LIMITED = PodResources(cpu_shares=512, cpu_quota=50000, cpu_period=100000, memory_limit=64 * 1024 * 1024)


@pytest.fixture
def v1(tmp_path: Path) -> Hierarchies:
    """Return two v1 hierarchies as plain folders."""
    return Hierarchies(v2=None, v1={name: tmp_path / name for name in ("cpu", "memory", "pids")})


@pytest.fixture
def v2(tmp_path: Path) -> Hierarchies:
    """Return a v2 hierarchy as plain folders; the kernel's files of each level exist before they are written."""
    for folder in ("", "kubepods", "kubepods/burstable", "kubepods/besteffort", "kubepods/burstable/podu"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "cgroup.subtree_control").write_text("")
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    return Hierarchies(v2=tmp_path, v1={})


@pytest.mark.parametrize(
    ("qos", "expected"),
    [
        pytest.param(QosClass.GUARANTEED, "/kubepods/podu", id="guaranteed-has-no-tier"),
        pytest.param(QosClass.BURSTABLE, "/kubepods/burstable/podu", id="burstable"),
        pytest.param(QosClass.BEST_EFFORT, "/kubepods/besteffort/podu", id="best-effort"),
    ],
)
def test_names(v1: Hierarchies, qos: QosClass, expected: str) -> None:
    """The cgroupfs driver's names, below the configured root."""
    assert Cgroups("/", hierarchies=v1).pod_cgroup("u", qos) == expected
    assert Cgroups("/our/own", hierarchies=v1).pod_cgroup("u", qos) == f"/our/own{expected}"
    assert Cgroups("our/own/", hierarchies=v1).pod_cgroup("u", qos) == f"/our/own{expected}"


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_cgroup_is_there_once_its_limits_have_a_place(version: str, request: pytest.FixtureRequest) -> None:
    """On v1 in each hierarchy of a limit; a hierarchy that the machine lacks is not asked for."""
    hierarchies: Hierarchies = request.getfixturevalue(version)
    assert not hierarchies.limits("/elsewhere")
    folders = list(hierarchies.folders("/elsewhere"))
    for folder in folders:
        assert not hierarchies.limits("/elsewhere")
        folder.mkdir(parents=True)
    assert hierarchies.limits("/elsewhere")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_whose_pod_is_guaranteed(version: str, request: pytest.FixtureRequest) -> None:
    """By where its cgroup is; no name leads out."""
    cgroups = Cgroups("/", hierarchies=request.getfixturevalue(version))
    cgroups.make_tiers()
    for uid, qos in (("g", QosClass.GUARANTEED), ("b", QosClass.BURSTABLE)):
        cgroups.make_pod(uid, qos, PodResources(cpu_shares=2))
    assert [uid for uid in ("g", "b", "unknown", "../x") if cgroups.is_guaranteed(uid)] == ["g"]


def test_no_name_leads_out(v1: Hierarchies) -> None:
    """Neither the configuration nor a manifest."""
    with pytest.raises(ValueError, match="leads upward"):
        Cgroups("/a/../..", hierarchies=v1)
    with pytest.raises(UnsafeName, match="not a plain name"):
        Cgroups("/", hierarchies=v1).pod_cgroup("../../init.scope", QosClass.BURSTABLE)


def test_mount_table(tmp_path: Path) -> None:
    """A hybrid node is v1; controllers mounted together share a folder, and every hierarchy counts for removal."""
    table = tmp_path / "mounts"
    table.write_text(V1_MOUNTS)
    hybrid = Hierarchies.of_this_node(table)
    assert hybrid.v2 is None
    assert hybrid.v1["cpu"] == Path("/sys/fs/cgroup/cpu,cpuacct")
    assert [str(one) for one in hybrid.folders("/kubepods")] == [
        "/sys/fs/cgroup/cpu,cpuacct/kubepods",
        "/sys/fs/cgroup/memory/kubepods",
        "/sys/fs/cgroup/systemd/kubepods",
        "/sys/fs/cgroup/unified/kubepods",
    ]
    table.write_text(V2_MOUNTS)
    unified = Hierarchies.of_this_node(table)
    assert list(unified.folders("/kubepods")) == [Path("/sys/fs/cgroup/kubepods")]
    table.write_text(V2_MOUNTS + OF_A_UNIT)
    assert Hierarchies.of_this_node(table) == unified, "a unit's own pressure file is no hierarchy"


def test_limits_on_v1(v1: Hierarchies) -> None:
    """Shares, quota and memory where the kernel reads them; a second making writes the same again."""
    cgroups = Cgroups("/", hierarchies=v1, settings=CgroupSettings(pod_pids_limit=100))
    for _ in range(2):
        assert cgroups.make_pod("u", QosClass.BURSTABLE, LIMITED) == "/kubepods/burstable/podu"
    pod = "kubepods/burstable/podu"
    assert _written(v1.v1["cpu"] / pod) == {
        "cpu.shares": "512",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "50000",
    }
    assert _written(v1.v1["memory"] / pod) == {"memory.limit_in_bytes": str(64 * 1024 * 1024)}
    assert _written(v1.v1["pids"] / pod) == {"pids.max": "100"}


def test_limits_on_v2(v2: Hierarchies) -> None:
    """Weight, cpu.max and memory.max, with the controllers handed down from the root to the pod's parent."""
    cgroups = Cgroups("/", hierarchies=v2, settings=CgroupSettings(pod_pids_limit=100))
    cgroups.make_pod("u", QosClass.BURSTABLE, LIMITED)
    assert v2.v2 is not None
    written = _written(v2.v2 / "kubepods/burstable/podu")
    assert written == {
        "cgroup.subtree_control": "",
        "cpu.weight": "20",
        "cpu.max": "50000 100000",
        "memory.max": str(64 * 1024 * 1024),
        "pids.max": "100",
    }
    for parent in ("", "kubepods", "kubepods/burstable"):
        assert (v2.v2 / parent / "cgroup.subtree_control").read_text() == "+cpuset +cpu +io +memory +pids"


def test_a_pod_without_limits_gets_shares_only(v1: Hierarchies) -> None:
    """Limits that are not set are left to the kernel."""
    Cgroups("/", hierarchies=v1).make_pod("u", QosClass.BEST_EFFORT, PodResources(cpu_shares=2))
    pod = "kubepods/besteffort/podu"
    assert [_written(v1.v1[name] / pod) for name in ("cpu", "memory", "pids")] == [{"cpu.shares": "2"}, {}, {}]


def test_tiers(v1: Hierarchies) -> None:
    """Best-effort pods together weigh next to nothing; empty tiers go again."""
    cgroups = Cgroups("/", hierarchies=v1)
    cgroups.make_tiers()
    assert _written(v1.v1["cpu"] / "kubepods/besteffort") == {"cpu.shares": "2"}
    (v1.v1["cpu"] / "kubepods/besteffort/cpu.shares").unlink()
    (v1.v1["cpu"] / "kubepods/burstable/cpu.shares").unlink()
    cgroups.remove_tiers()
    assert [one for root in v1.v1.values() for one in root.iterdir()] == []


def test_the_burstable_tier_weighs_what_its_pods_weigh(v1: Hierarchies) -> None:
    """As pods come and go, and after a restart of the worker too; other classes do not count."""
    cgroups = Cgroups("/", hierarchies=v1)
    cgroups.make_tiers()
    assert _burstable_shares(v1) == "2"
    cgroups.make_pod("a", QosClass.BURSTABLE, PodResources(cpu_shares=100))
    cgroups.make_pod("a", QosClass.BURSTABLE, PodResources(cpu_shares=100))
    cgroups.make_pod("b", QosClass.BURSTABLE, PodResources(cpu_shares=50))
    cgroups.make_pod("c", QosClass.GUARANTEED, PodResources(cpu_shares=1000))
    assert _burstable_shares(v1) == "150"
    restarted = Cgroups("/", hierarchies=v1)
    restarted.make_tiers()
    assert _burstable_shares(v1) == "150"
    for root in v1.v1.values():
        for file in (root / "kubepods/burstable/podb").iterdir():
            file.unlink()
    restarted.remove_pod("b")
    assert _burstable_shares(v1) == "100"


def test_removal_takes_the_pods_cgroup_from_every_tier_and_nothing_else(v1: Hierarchies) -> None:
    """A pod whose class was misjudged leaves nothing; a pod with a longer uid stays."""
    for tier in ("", "burstable/", "besteffort/"):
        (v1.v1["memory"] / f"kubepods/{tier}podu/container").mkdir(parents=True)
    (v1.v1["memory"] / "kubepods/podu2").mkdir()
    cgroups = Cgroups("/", hierarchies=v1)
    for _ in range(2):
        assert cgroups.remove_pod("u") == []
    assert sorted(one.name for one in v1.v1["memory"].rglob("pod*")) == ["podu2"]


def test_removal_says_what_the_kernel_still_holds(v1: Hierarchies) -> None:
    """The caller asks again; nothing waits in a thread."""
    held = v1.v1["memory"] / "kubepods/podu"
    held.mkdir(parents=True)
    (held / "busy").write_text("")  # stands for a process that does not die: the folder cannot be removed
    cgroups = Cgroups("/", hierarchies=v1)
    assert cgroups.remove_pod("u") == [held]
    (held / "busy").unlink()
    assert cgroups.remove_pod("u") == []


MORE = PodResources(cpu_shares=1024, cpu_quota=100000, cpu_period=100000, memory_limit=128 * 1024 * 1024)
MIXED = PodResources(cpu_shares=256, cpu_quota=200000, cpu_period=100000, memory_limit=32 * 1024 * 1024)
FREE = PodResources(cpu_shares=512, cpu_quota=-1, cpu_period=100000)


@pytest.mark.parametrize(
    ("resources", "only_raise", "cpu_v1", "cpu_v2", "memory"),
    [
        pytest.param(MORE, True, ("1024", "100000"), ("39", "100000 100000"), 128, id="raised"),
        pytest.param(MIXED, True, ("512", "200000"), ("20", "200000 100000"), 64, id="only-what-is-too-low-is-raised"),
        pytest.param(MIXED, False, ("256", "200000"), ("10", "200000 100000"), 32, id="set"),
        pytest.param(FREE, True, ("512", "-1"), ("20", "max 100000"), 64, id="no-limit-is-more-than-any"),
    ],
)
def test_resize(
    v1: Hierarchies,
    v2: Hierarchies,
    resources: PodResources,
    only_raise: bool,
    cpu_v1: tuple[str, str],
    cpu_v2: tuple[str, str],
    memory: int,
) -> None:
    """A pod's cgroup while it lives, on both versions; a second time changes nothing."""
    pod, size = "kubepods/burstable/podu", str(memory * 1024 * 1024)
    for hierarchies in (v1, v2):
        cgroups = Cgroups("/", hierarchies=hierarchies)
        cgroups.make_pod("u", QosClass.BURSTABLE, LIMITED)
        for _ in range(2):
            cgroups.resize_pod("u", QosClass.BURSTABLE, resources, only_raise=only_raise)
    assert _written(v1.v1["cpu"] / pod) == {
        "cpu.shares": cpu_v1[0],
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": cpu_v1[1],
    }
    assert _written(v1.v1["memory"] / pod) == {"memory.limit_in_bytes": size}
    assert v2.v2 is not None
    unified = _written(v2.v2 / pod)
    assert (unified["cpu.weight"], unified["cpu.max"], unified["memory.max"]) == (*cpu_v2, size)
    assert _burstable_shares(v1) == cpu_v1[0]


def test_no_limit_is_lowered_while_a_pod_without_one_is_raised(v1: Hierarchies) -> None:
    """What had no limit has more than any."""
    cgroups = Cgroups("/", hierarchies=v1)
    cgroups.make_pod("u", QosClass.BURSTABLE, FREE)
    (v1.v1["memory"] / "kubepods/burstable/podu/memory.limit_in_bytes").write_text("9223372036854771712")
    cgroups.resize_pod("u", QosClass.BURSTABLE, LIMITED, only_raise=True)
    assert _written(v1.v1["cpu"] / "kubepods/burstable/podu")["cpu.cfs_quota_us"] == "-1"
    (v1.v1["memory"] / "kubepods/burstable/podu/memory.usage_in_bytes").write_text("4096")
    assert cgroups.pod_memory("u", QosClass.BURSTABLE) == (0, 4096)


def test_what_a_pod_uses_on_v2(v2: Hierarchies) -> None:
    """Its limit, none for `max`, and its usage in bytes."""
    assert v2.v2 is not None
    folder = v2.v2 / "kubepods/burstable/podu"
    (folder / "memory.current").write_text("4096\n")
    for limit, expected in (("max\n", 0), ("8192\n", 8192)):
        (folder / "memory.max").write_text(limit)
        assert Cgroups("/", hierarchies=v2).pod_memory("u", QosClass.BURSTABLE) == (expected, 4096)


def test_a_node_without_a_memory_controller(tmp_path: Path) -> None:
    """Its pods are resized in what there is."""
    cgroups = Cgroups("/", hierarchies=Hierarchies(v2=None, v1={"cpu": tmp_path}))
    cgroups.make_pod("u", QosClass.GUARANTEED, LIMITED)
    cgroups.resize_pod("u", QosClass.GUARANTEED, MORE, only_raise=True)
    assert _written(tmp_path / "kubepods/podu")["cpu.shares"] == "1024"
    assert cgroups.pod_memory("u", QosClass.GUARANTEED) == (0, 0)


def _burstable_shares(hierarchies: Hierarchies) -> str:
    return (hierarchies.v1["cpu"] / "kubepods/burstable/cpu.shares").read_text()


def _written(folder: Path) -> dict[str, str]:
    return {one.name: one.read_text() for one in folder.iterdir() if one.is_file()}
