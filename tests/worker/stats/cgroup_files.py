"""The cgroup files of a container with 200m cpu and 64 MiB of memory, written by kernel 6.18, on v1 and v2.

The v1 files are those of a container under the real kubelet on such a machine; those of v2 have the same values.
"""

from collections.abc import Mapping
from pathlib import Path

V1 = {
    "cpuacct": {
        "cpuacct.usage": "209786439\n",
        "cpuacct.stat": "user 12\nsystem 7\n",
    },
    "cpu": {
        "cpu.shares": "204\n",
        "cpu.cfs_period_us": "100000\n",
        "cpu.cfs_quota_us": "20000\n",
        "cpu.stat": "nr_periods 81\nnr_throttled 3\nthrottled_time 24527601\nnr_bursts 0\nburst_time 0\n",
        "cgroup.procs": "4711\n4712\n",
    },
    "memory": {
        "memory.usage_in_bytes": "3805184\n",
        "memory.max_usage_in_bytes": "6041600\n",
        "memory.failcnt": "2\n",
        "memory.kmem.usage_in_bytes": "405504\n",
        "memory.limit_in_bytes": "67108864\n",
        "memory.memsw.limit_in_bytes": "67108864\n",
        "memory.soft_limit_in_bytes": "9223372036854771712\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        "memory.stat": "cache 1000\nrss 2000\npgfault 9920\npgmajfault 2\ntotal_cache 2273280\ntotal_rss 114688\n"
        "total_mapped_file 4096\ntotal_swap 8192\ntotal_active_file 0\ntotal_inactive_file 2273280\n",
    },
    "pids": {"pids.current": "3\n", "pids.max": "max\n"},
    "blkio": {
        "blkio.throttle.io_service_bytes_recursive": "254:0 Read 4096\n254:0 Write 2097152\n254:0 Sync 0\n254:0 Total 2101248\nTotal 2101248\n",
        "blkio.throttle.io_serviced_recursive": "254:0 Read 1\n254:0 Write 16\n254:0 Total 17\nTotal 17\n",
    },
}
V2 = {
    "cpu.stat": "usage_usec 209786\nuser_usec 120000\nsystem_usec 70000\nnr_periods 81\nnr_throttled 3\nthrottled_usec 24527\n"
    "nr_bursts 0\nburst_usec 0\n",
    "cpu.weight": "8\n",
    "cpu.max": "20000 100000\n",
    "cpu.pressure": "some avg10=1.50 avg60=0.40 avg300=0.10 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n",
    "memory.current": "3805184\n",
    "memory.peak": "6041600\n",
    "memory.max": "67108864\n",
    "memory.swap.current": "8192\n",
    "memory.swap.max": "0\n",
    "memory.low": "0\n",
    "memory.events": "low 0\nhigh 0\nmax 2\noom 1\noom_kill 1\n",
    "memory.stat": "anon 114688\nfile 2273280\nkernel 405504\nfile_mapped 4096\nactive_file 0\ninactive_file 2273280\npgfault 9920\npgmajfault 2\n",
    "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=70\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=60\n",
    "io.stat": "254:0 rbytes=4096 wbytes=2097152 rios=1 wios=16 dbytes=0 dios=0\n253:0\n",
    "pids.current": "3\n",
    "pids.max": "max\n",
    "cgroup.procs": "4711\n4712\n",
}


def write_v1(root: Path, cgroup: str, files: Mapping[str, Mapping[str, str]] = V1) -> dict[str, Path]:
    """Write a cgroup into v1 hierarchies; returns their mount points."""
    roots = {name: root / name for name in ("cpuacct", "cpu", "memory", "pids", "blkio")}
    for name, place in roots.items():
        folder = place / cgroup.strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.get(name, {}).items():
            (folder / file).write_text(text)
    return roots


def write_v2(root: Path, cgroup: str, files: Mapping[str, str] = V2) -> Path:
    """Write a cgroup into the v2 hierarchy; returns its mount point."""
    folder = root / cgroup.strip("/")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text)
    return root
