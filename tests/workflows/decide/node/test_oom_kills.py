"""Is the kernel's log read as by cadvisor's oomparser, and is nobody else believed who writes into it?"""

import pytest

from workflows.decide.node.oom_kills import OomKill, Report, follow, kernel_record

START = "ruby invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0"
POD = "/kubepods/burstable/podfbdfe8e3-1c87-4ff2-907c-b2ec8e25d012"
OF_A_POD = (
    f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=ef80,mems_allowed=0,oom_memcg={POD},"
    f"task_memcg={POD}/ef80,task=manager,pid=966,uid=0"
)
GLOBAL = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/x,task=tail,pid=7,uid=0"


def kills(*texts: str) -> list[OomKill]:
    """Return the kills that these records tell of."""
    report: Report | None = None
    found = []
    for text in texts:
        report, kill = follow(report, text)
        if kill:
            found.append(kill)
    return found


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        pytest.param(
            [
                START,
                "memorymonster cpuset=/ mems_allowed=0",
                "CPU: 5 PID: 13536 Comm: memorymonster Tainted: P           OX 3.13.0-43-generic #72-Ubuntu",
                "Task in /mem2 killed as a result of limit of /mem3",
                "Memory cgroup out of memory: Kill process 13536 (memorymonster) score 1043 or sacrifice child",
                "Killed process 13536 (memorymonster) total-vm:1460016kB, anon-rss:1414008kB, file-rss:4kB",
            ],
            OomKill("/mem3", "memorymonster", 13536),
            id="before-5.0-in-a-cgroup",
        ),
        pytest.param(
            [
                START,
                "[ 1532]  1020  1532   410347   398810     788        0             0 badsysprogram",
                "Out of memory: Kill process 1532 (badsysprogram) score 919 or sacrifice child",
                "Killed process 1532 (badsysprogram) total-vm:1641388kB, anon-rss:1595164kB, file-rss:76kB",
            ],
            OomKill("/", "badsysprogram", 1532),
            id="before-5.0-of-the-machine",
        ),
        pytest.param([START, OF_A_POD], OomKill(POD, "manager", 966), id="since-5.0-in-a-cgroup"),
        pytest.param(
            [START, GLOBAL, "Out of memory: Killed process 7 (tail) total-vm:1kB, anon-rss:1kB, file-rss:0kB"],
            OomKill("/", "tail", 7),
            id="since-5.0-of-the-machine",
        ),
        pytest.param(
            [START, "Out of memory (oom_kill_allocating_task): Killed process 8 (a) total-vm:1kB"],
            OomKill("/", "a", 8),
            id="the-process-that-asked-for-memory",
        ),
        pytest.param(
            [START, "Memory cgroup out of memory: Killed process 7 (tail) total-vm:1kB"],
            OomKill("", "tail", 7),
            id="the-record-of-the-cgroup-is-lost",
        ),
        pytest.param(
            ["oom-reaper: reaped process 1 (x)", START, START, GLOBAL, "Killed process 9 (b) total-vm:1kB"],
            OomKill("/", "b", 9),
            id="the-end-of-the-report-before-is-lost",
        ),
    ],
)
def test_a_kill(texts: list[str], found: OomKill) -> None:
    """With the cgroup that was short, the process and its id."""
    assert kills(*texts) == [found]


@pytest.mark.parametrize(
    "name", ["foo", "python3.4", "foo-bar", "Plex Media Serve", "[", "()", '"with quotes"', "a) b (c"]
)
def test_a_name_is_taken_whole(name: str) -> None:
    """Whatever is in it."""
    (kill,) = kills(START, f"Out of memory: Killed process 1234 ({name}) total-vm:1460016kB, anon-rss:1414008kB")
    assert kill == OomKill("/", name, 1234)
    assert kill.message == f"System OOM encountered, victim process: {name}, pid: 1234"


def test_without_a_victim() -> None:
    """As the kubelet words it."""
    assert OomKill("/").message == "System OOM encountered"


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param([OF_A_POD, "Killed process 1 (init) total-vm:1kB"], id="no-report-has-begun"),
        pytest.param(
            [START, "Killed process 1 cpuset=Killed process 1 (init) mems_allowed=0"], id="a-cgroup-of-that-name"
        ),
        pytest.param(
            [f"{'x' * 65} invoked oom-killer:", "Killed process 1 (init)"], id="no-process-has-so-long-a-name"
        ),
        pytest.param([START, f"[ 1 ] 0 1 1 1 {'Killed process 1 (init)'}"], id="in-the-list-of-processes"),
        pytest.param([START, "Killed process 99999999999999 (a)", "Killed process 1 ()"], id="no-pid-no-name"),
    ],
)
def test_what_is_no_kill(texts: list[str]) -> None:
    """Names do not become statements."""
    assert kills(*texts) == []


@pytest.mark.parametrize(
    "line",
    [
        OF_A_POD.replace("cpuset=ef80", "cpuset=a,oom_memcg=,task=init,pid=1,uid=0"),
        OF_A_POD.replace(f"oom_memcg={POD}", f"oom_memcg={POD}/a,oom_memcg=/,task=x"),
        OF_A_POD.replace("task=manager", "task=init,pid=1,ui"),
    ],
    ids=["cpuset", "cgroup", "process"],
)
def test_a_pods_own_kill_stays_its_own(line: str) -> None:
    """With names that look like the kernel's fields."""
    (kill,) = kills(START, line)
    assert (kill.of_the_system, kill.pid) == (False, 966)
    assert kill.short_of.startswith(POD)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        pytest.param(
            b"6,339,5140900,-;NET: Registered\n SUBSYSTEM=net\n DEVICE=+x\n", "NET: Registered", id="with-properties"
        ),
        pytest.param(b"3,1,2,c,caller=T1;a;b", "a;b", id="with-its-caller"),
        pytest.param(b"12,1,2,-;Killed process 1 (init)\n", None, id="written-by-a-process"),
        pytest.param(b"30,1,2,-;x", None, id="by-a-service"),
        pytest.param(b"4,1;x", None, id="too-short-a-head"),
        pytest.param(b"x", None, id="no-head"),
        pytest.param(b"", None, id="nothing"),
        pytest.param(b"4,1,2,-;" + b"\xff" * 9000, "\ufffd" * 8184, id="bytes-of-any-kind-and-number"),
    ],
)
def test_a_record(raw: bytes, text: str | None) -> None:
    """Only the kernel's own are believed."""
    record = kernel_record(raw)
    assert (record.text if record else None) == text
