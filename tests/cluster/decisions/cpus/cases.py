"""Random machines, requests and states: a seed makes the same case everywhere.

Groups of threads are wanted only where at most one core is free in part: the kubelet may loop for ever elsewhere
(workflows/decide/cpus/README.md).
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

Json = dict[str, Any]
OPTIONS: Final = (
    "full-pcpus-only",
    "strict-cpu-reservation",
    "prefer-align-cpus-by-uncorecache",
    "distribute-cpus-across-numa",
    "align-by-socket",
    "distribute-cpus-across-cores",
)
WRONG_OPTIONS: Final = ("", "full-pcpus", "Full-PCPUs-Only")
VALUES: Final = ("true", "true", "true", "1", "T", "false", "0")
WRONG_VALUES: Final = ("", "yes", "tRUE", "2", "true ")


def case(seed: int, kind: str = "") -> Json:
    """Draw a case, of any kind if none is given."""
    random = Random(seed)
    kind = kind or random.choice(tuple(KINDS))
    return {"kind": kind, **KINDS[kind](random)}


def machine(random: Random) -> Json:
    """Draw a machine whose parts are alike: sockets in NUMA nodes, or NUMA nodes in sockets."""
    sockets, nodes = random.choice(
        ((1, 1), (1, 2), (2, 2), (1, 4), (2, 4), (2, 1), (4, 2), (4, 4), (2, 6), (2, 8), (1, 6))
    )
    threads = random.choice((1, 2, 2, 2, 4))
    parts = max(sockets, nodes)
    cores = random.choice((1, 2, 3, 4)) if parts > 2 else random.choice((1, 2, 3, 4, 6, 8))
    caches = random.choice([one for one in (1, 2, 4) if cores % one == 0])
    numbered = list(range(parts * cores * threads))
    layout = random.choice(("threads-last", "threads-next", "any"))
    if layout == "any":
        random.shuffle(numbered)
    cpus = []
    for part in range(parts):
        for core in range(cores):
            at = part * cores + core
            if layout == "threads-last":
                mine = [numbered[at + thread * parts * cores] for thread in range(threads)]
            else:
                mine = numbered[at * threads : (at + 1) * threads]
            cache = part * caches + core * caches // cores
            node, socket = part * nodes // parts, part * sockets // parts
            cpus += [[cpu, node, socket, min(mine), cache] for cpu in mine]
    return {"cpus": sorted(cpus), "cores": parts * cores, "sockets": sockets}


def take(random: Random) -> Json:
    """Draw a request for CPUs of those that are free."""
    drawn = machine(random)
    threads = len(drawn["cpus"]) // drawn["cores"]
    group = random.choice((0, 0, 1, threads))
    free = available(random, drawn, whole=group > 1)
    most = len(free) + (random.random() < 0.05)
    count = random.randint(0, most)
    if group > 1 and random.random() < 0.9:
        count -= count % group
    return {
        "machine": drawn,
        "available": free,
        "count": count,
        "group": group,
        "spread": random.random() < 0.25,
        "byCache": group == 0 and random.random() < 0.5,
    }


def available(random: Random, drawn: Json, *, whole: bool) -> list[int]:
    """Draw free CPUs, by cores except for one if they have to be whole."""
    share = random.choice((1.0, 1.0, 0.9, 0.7, 0.4))
    if not whole:
        return [one[0] for one in drawn["cpus"] if random.random() < share]
    cores = {core: random.random() < share for core in sorted({one[3] for one in drawn["cpus"]})}
    free = [one[0] for one in drawn["cpus"] if cores[one[3]]]
    if free and random.random() < 0.3:
        free.remove(random.choice(free))
    return free


def policy(random: Random) -> Json:
    """Draw a policy, what it knows at its start, and what is asked of it."""
    shared: list[int]
    containers: Json
    drawn = machine(random)
    every = [one[0] for one in drawn["cpus"]]
    count = random.choice((1, 1, 2, 3, len(every) + 1 if random.random() < 0.1 else 0))
    reserved = sorted(random.sample(every, min(count, len(every)))) if random.random() < 0.3 else []
    chosen = options(random)
    if chosen.get("distribute-cpus-across-numa") and chosen.get("full-pcpus-only"):
        count = len(every) // drawn["cores"]
        core = random.choice(drawn["cpus"])[3]
        reserved = sorted(one[0] for one in drawn["cpus"] if one[3] == core)
        shared, containers = [], {}
    else:
        shared, containers = known(random, every, reserved)
    if random.random() < 0.03:
        reserved, count = [len(every) + 5], 1
    pods = [pod(random, number, len(every)) for number in range(random.randint(1, 4))]
    return {
        "machine": drawn,
        "options": chosen,
        "alpha": random.random() < 0.9,
        "beta": random.random() < 0.95,
        "topologyPolicy": random.choice(("none", "best-effort", "restricted", "single-numa-node")),
        "count": count,
        "reserved": reserved,
        "shared": shared,
        "containers": containers,
        "steps": [step(random, pods, drawn) for _ in range(random.randint(2, 14))],
    }


def options(random: Random) -> dict[str, str]:
    """Draw options; now and then one that is wrong."""
    names = [one for one in OPTIONS if random.random() < 0.25]
    chosen = {one: random.choice(VALUES) for one in names}
    if random.random() < 0.03:
        chosen[random.choice(WRONG_OPTIONS)] = "true"
    if random.random() < 0.03:
        chosen[random.choice(OPTIONS)] = random.choice(WRONG_VALUES)
    return chosen


def known(random: Random, every: list[int], reserved: list[int]) -> tuple[list[int], Json]:
    """Draw a state: mostly none, else one with a container, often with a fault."""
    if random.random() < 0.8:
        return [], {}
    free = [one for one in every if one not in reserved]
    has = sorted(random.sample(free, min(len(free), random.randint(1, 4))))
    shared = [one for one in every if one not in has]
    match random.choice(("right", "right", "strict", "overlap", "missing", "empty")):
        case "strict":
            shared = [one for one in shared if one not in reserved]
        case "overlap":
            shared = every
        case "missing":
            shared = shared[:-1]
        case "empty":
            shared = []
    return shared, {"pod-0": {"app-0": has}}


def pod(random: Random, number: int, most: int) -> Json:
    """Draw a pod, mostly a guaranteed one."""
    guaranteed = random.random() < 0.9
    inits = [
        container(random, f"init-{one}", most, guaranteed=guaranteed) for one in range(random.choice((0, 0, 1, 2)))
    ]
    for one in inits:
        if random.random() < 0.3:
            one["restartPolicy"] = "Always"
    apps = [container(random, f"app-{one}", most, guaranteed=guaranteed) for one in range(random.choice((1, 1, 2)))]
    spec: Json = {"initContainers": inits, "containers": apps}
    if random.random() < 0.03:
        spec["resources"] = {kind: {"cpu": "2", "memory": "1Gi"} for kind in ("requests", "limits")}
    return {"metadata": {"name": f"pod-{number}", "uid": f"pod-{number}"}, "spec": spec}


def container(random: Random, name: str, most: int, *, guaranteed: bool) -> Json:
    """Draw a container; some ask for parts of CPUs."""
    cpu = str(random.randint(1, max(1, most // random.choice((1, 2, 4, 8)))))
    if random.random() < 0.15:
        cpu = random.choice(("500m", "1500m", "2000m"))
    amounts = {"cpu": cpu, "memory": "64Mi"}
    return {"name": name, "resources": {"requests": amounts, "limits": amounts if guaranteed else {"memory": "64Mi"}}}


def step(random: Random, pods: list[Json], drawn: Json) -> Json:
    """Draw what is asked about one container."""
    one = random.choice(pods)
    names = [each["name"] for each in (*one["spec"]["initContainers"], *one["spec"]["containers"])]
    nodes = sorted({each[1] for each in drawn["cpus"]})
    affinity = sorted(random.sample(nodes, random.randint(1, len(nodes)))) if random.random() < 0.5 else None
    return {
        "do": random.choice(("allocate", "allocate", "allocate", "release", "hints", "podHints")),
        "pod": one,
        "container": random.choice(names),
        "affinity": affinity,
    }


def state(random: Random) -> Json:
    """Draw what a state file says."""
    entries = {
        f"{random.getrandbits(64):x}": {
            f"c{random.randint(0, 99)}": str(random.randint(0, 255)) for _ in range(random.randint(1, 3))
        }
        for _ in range(random.randint(0, 4))
    }
    return {
        "policy": random.choice(("static", "none")),
        "shared": random.choice(("", "0", "0-3", "0-3,8-11", "1,3,5")),
        "entries": entries,
    }


KINDS: Final[Mapping[str, Callable[[Random], Json]]] = {"cpus": take, "cpu-policy": policy, "cpu-state": state}
