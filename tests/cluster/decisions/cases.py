"""Random cases: a seed makes the same case everywhere."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from tests.cluster.decisions.pods_drawn import Json, pod, pods, stats

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When the clock of each case begins."""
SIGNALS: Final = (
    "memory.available",
    "allocatableMemory.available",
    "pid.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
)
CAPACITIES: Final = {"memory": 1 << 30, "pids": 1 << 28, "bytes": 10 << 30, "inodes": 1 << 29}
"""More than any quantity of a threshold, so that none is met while all is left."""
VALID: Final = ("10%", "5%", "15%", "33.3%", "0.1%", "2.5e1%", "100Mi", "1000", "1k", "64Ki", "1.5Mi", "0%", "100%")
INVALID: Final = (
    "",
    "%",
    "-1%",
    "101%",
    "x%",
    "1e39%",
    "inf%",
    "-1Mi",
    "0",
    "1 Mi",
    " 1Mi",
    "1MiB",
    "abc",
    "-0.5",
    "1_0%",
    "5%%",
    ".5%",
    "5.%",
    "1e-50%",
)
GRACES: Final = ("30s", "1m30s", "0s", "0", "1.5h", "100ms", "20s", "60s")
WRONG_GRACES: Final = ("-1s", "30", "", "1x", "s", "1s ", ".s", "1h30", "9999999h", "-", "+5s", "1µs")
RECLAIMS: Final = ("0", "500Mi", "5%", "1Mi", "0.5%", "150%")
WRONG_RECLAIMS: Final = ("0%", "-1%", "-5Mi", "x", "x%", "")
SHUTDOWN_PRIORITIES: Final = (-20, -10, 0, 4, 5, 6, 1_000_000_000, 1_999_999_999, 2_000_000_000, 2_000_001_000)
SHUTDOWN_MILLIS: Final = (0, 1000, 1999, 10_000, 30_000, 90_500)
LAYOUTS: Final = ((False, False), (True, False), (True, True), (False, True))
"""Whether images, and containers, have a file system of their own; the last does not exist."""
RANKED: Final = ("memory", "pids", "ephemeral-storage", "inodes")
LACKING: Final = ("cpu", "memory", "pods", "ephemeral-storage", "example.com/gpu")


def case(seed: int, kind: str = "") -> Json:
    """Draw a case, of any kind if none is given; `kind` in it says who answers and compares."""
    random = Random(seed)
    kind = kind or random.choice(tuple(KINDS))
    return {"kind": kind, **KINDS[kind](random)}


def thresholds(random: Random) -> Json:
    """Draw a configuration, often with a fault."""
    faulty = random.random() < 0.5
    return config(
        random,
        values=VALID + (INVALID if faulty else ()),
        graces=GRACES + (WRONG_GRACES if faulty else ()),
        reclaims=RECLAIMS + (WRONG_RECLAIMS if faulty else ()),
        signals=SIGNALS + (("mem.available",) if faulty else ()),
        graced=random.choice((1.0, 0.5)) if faulty else 1.0,
    )


def config(
    random: Random,
    *,
    values: tuple[str, ...] = VALID,
    graces: tuple[str, ...] = GRACES,
    reclaims: tuple[str, ...] = RECLAIMS,
    signals: tuple[str, ...] = SIGNALS,
    graced: float = 1.0,
) -> Json:
    """Draw the keys of a KubeletConfiguration."""
    soft = some(random, signals, values, 0.3)
    return {
        "enforceNodeAllocatable": random.choice(([], ["pods"], ["pods", "kube-reserved"], ["none"])),
        "evictionHard": some(random, signals, values, 0.4),
        "evictionSoft": soft,
        "evictionSoftGracePeriod": {name: random.choice(graces) for name in soft if random.random() < graced},
        "evictionMinimumReclaim": some(random, signals, reclaims, 0.2),
    }


def some(random: Random, names: tuple[str, ...], values: tuple[str, ...], often: float) -> dict[str, str]:
    """Draw values for some names."""
    return {name: random.choice(values) for name in names if random.random() < often}


def ranking(random: Random) -> Json:
    """Draw pods to rank for one resource."""
    chosen = pods(random)
    return {
        "resource": random.choice(RANKED),
        "files": [one for one in ("root", "logs", "localVolumeSource") if random.random() < 0.7],
        "pods": chosen,
        "stats": stats(random, chosen),
    }


def rounds(random: Random) -> Json:
    """Draw an eviction manager over steps of time; the first finds everything well, see the README of the core."""
    chosen = pods(random)
    image_fs, container_fs = random.choice(LAYOUTS)
    layout = {"dedicatedImageFs": image_fs, "dedicatedContainerFs": container_fs}
    now, steps = EPOCH, []
    for number in range(random.randint(2, 8)):
        after = random.choice((1, 10, 10, 10, 30, 60, 100, 300, 301))
        now += timedelta(seconds=after)
        short = 0.0 if number == 0 else random.choice((0.0, 0.05, 0.1, 0.3))
        steps.append(
            {
                "afterSeconds": after,
                "summary": summary(random, layout, now, short) | {"pods": stats(random, chosen)},
                "reclaimed": summary(random, layout, now, random.choice((0.0, short))),
            }
        )
    return {
        **layout,
        "config": config(random),
        "transitionSeconds": random.choice((0, 30, 300)),
        "maxPodGracePeriodSeconds": random.choice((0, 5, 60, -1)),
        "localStorageCapacityIsolation": random.random() < 0.3,
        "pods": chosen,
        "steps": steps,
    }


def starving(random: Random) -> Json:
    """Draw rounds of a node that lacks what one signal tells of, for good after the first, so that pod after pod is evicted."""
    signal, chosen = random.choice(SIGNALS), pods(random)
    image_fs, container_fs = random.choice(LAYOUTS)
    layout = {"dedicatedImageFs": image_fs, "dedicatedContainerFs": container_fs}
    used, now, steps = stats(random, chosen), EPOCH, []
    for number in range(3):
        now += timedelta(seconds=10)
        found = summary(random, layout, now, 1.0 if number else 0.0)
        steps.append({"afterSeconds": 10, "summary": found | {"pods": used}, "reclaimed": found})
    return {
        "kind": "rounds",
        "signal": signal,
        **layout,
        "config": {
            "enforceNodeAllocatable": random.choice(([], ["pods"])),
            "evictionHard": {signal: "50%"},
            "evictionSoft": {},
            "evictionSoftGracePeriod": {},
            "evictionMinimumReclaim": {},
        },
        "transitionSeconds": 30,
        "maxPodGracePeriodSeconds": 0,
        "localStorageCapacityIsolation": False,
        "pods": chosen,
        "steps": steps,
    }


def summary(random: Random, layout: Mapping[str, bool], now: datetime, short: float) -> Json:
    """Draw a /stats/summary without pods; each figure is short with this probability."""
    disks = [disk(random, now, short) for _ in range(3)]
    node_fs, image_fs, other = disks
    if layout["dedicatedImageFs"]:
        container_fs = node_fs if layout["dedicatedContainerFs"] else image_fs
    else:
        container_fs = other if layout["dedicatedContainerFs"] else node_fs
    node: Json = {"systemContainers": [], "runtime": {"imageFs": image_fs, "containerFs": container_fs}, "fs": node_fs}
    if random.random() < 0.95:
        node["memory"] = memory(random, now, short)
    if random.random() < 0.9:
        node["systemContainers"] = [{"name": "kubelet"}, {"name": "pods", "memory": memory(random, now, short)}]
    if random.random() < 0.95:
        node["rlimit"] = tasks(random, now, short)
    return {"node": node}


def memory(random: Random, now: datetime, short: float) -> Json:
    """Draw memory."""
    left = available(random, CAPACITIES["memory"], short)
    figures = {"availableBytes": left, "workingSetBytes": CAPACITIES["memory"] - left}
    return {"time": when(random, now)} | (figures if random.random() < 0.97 else {"workingSetBytes": 5})


def disk(random: Random, now: datetime, short: float) -> Json:
    """Draw a file system."""
    found: Json = {"time": when(random, now)}
    if random.random() < 0.97:
        found |= {
            "availableBytes": available(random, CAPACITIES["bytes"], short),
            "capacityBytes": CAPACITIES["bytes"],
        }
    if random.random() < 0.97:
        found |= {"inodesFree": available(random, CAPACITIES["inodes"], short), "inodes": CAPACITIES["inodes"]}
    return found


def tasks(random: Random, now: datetime, short: float) -> Json:
    """Draw processes; there may be more than there may be."""
    most = CAPACITIES["pids"]
    running = most - available(random, most, short) + (random.choice((0, 5)) if short else 0)
    return {"time": when(random, now), "maxpid": most, "curproc": running}


def available(random: Random, capacity: int, short: float) -> int:
    """Draw what is left: everything, or about as much as thresholds ask for."""
    if random.random() >= short:
        return capacity
    share = random.choice((0.0, 0.001, 0.02, 0.05, 0.1, 0.15, 0.25, 0.333))
    return (
        random.choice((int(capacity * share), max(0, int(capacity * share) - 1), 1000, 1 << 10, 100 << 20)) % capacity
    )


def when(random: Random, now: datetime) -> str | None:
    """Draw the time of a measurement: now, long ago, or none."""
    at = random.choice((now, now, now, now, now, EPOCH, None))
    return f"{at:%Y-%m-%dT%H:%M:%SZ}" if at else None


def preemption(random: Random) -> Json:
    """Draw a pod that does not fit."""
    preemptor = pod(random, "preemptor")
    preemptor["spec"]["priority"] = random.choice((0, 1_000_000, 2_000_000_000, 2_000_000_000, 2_000_001_000))
    reasons: list[Json] = [lack(random, name) for name in LACKING if random.random() < 0.4]
    if random.random() < 0.1:
        reasons.append({"predicate": "NodePorts", "why": "node(s) didn't have free ports for the requested pod ports"})
        random.shuffle(reasons)
    return {"preemptor": preemptor, "pods": pods(random), "reasons": reasons}


def lack(random: Random, name: str) -> Json:
    """Draw how much of a resource is lacking; sometimes nothing is."""
    sizes = {"cpu": (1, 100, 101, 500, 1500, 4000), "pods": (0, 1, 2, 5), "example.com/gpu": (1, 2, 3)}
    amount = random.choice(sizes.get(name, (0, 1, 1000, 1024, 1 << 20, 1 << 26, (1 << 30) + 1)))
    return {"resource": name, "requested": amount + 7, "used": 93, "capacity": 100}


def shutdown(random: Random) -> Json:
    """Draw periods, some of one priority, and pods around them; without any, those of the two kinds of pods."""
    priorities = random.choices(SHUTDOWN_PRIORITIES, k=random.choice((0, 1, 2, 3, 5, 12)))
    whole = random.choice(SHUTDOWN_MILLIS)
    return {
        "periods": [
            {"priority": one, "shutdownGracePeriodSeconds": random.choice((0, 1, 10, 120))}
            for one in sorted(priorities)
        ],
        "whole": whole,
        "part": random.choice([one for one in SHUTDOWN_MILLIS if one <= whole]),
        "pods": pods(random),
    }


KINDS: Final[Mapping[str, Callable[[Random], Json]]] = {
    "thresholds": thresholds,
    "rank": ranking,
    "rounds": rounds,
    "signal": starving,
    "preempt": preemption,
    "shutdown": shutdown,
}
