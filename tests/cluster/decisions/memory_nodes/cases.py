"""Random machines, reservations, pods and state files: a seed makes the same case everywhere.

All nodes have huge pages of the same sizes, as in Linux, and pods ask for no others: the kubelet panics elsewhere
(workflows/decide/memory_nodes/README.md).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from tests.cluster.decisions.memory_nodes.contents import assignments_of, content_of, machine_of, state_of
from workflows.decide.memory_nodes.state_file import written_state
from workflows.decide.memory_nodes.static_policy import idle_machine, machine_with

Json = dict[str, Any]
GIB: Final = 2**30
PAGES: Final = {2048: "hugepages-2Mi", 1048576: "hugepages-1Gi"}
"""Sizes in KiB."""


def case(seed: int, kind: str = "") -> Json:
    """Draw a case, of any kind if none is given."""
    random = Random(seed)
    kind = kind or random.choices(tuple(KINDS), (12, 4, 1, 1))[0]
    return {"kind": kind, **KINDS[kind](random)}


def nodes(random: Random) -> list[Json]:
    """Draw NUMA nodes; now and then one without memory, or with a number left out."""
    count = random.choice((1, 2, 2, 2, 3, 4, 4))
    sizes = [one for one in PAGES if random.random() < 0.4]
    gap = random.random() < 0.05
    return [
        {
            "id": one + (one > 0 and gap),
            "memory": 0 if random.random() < 0.02 else random.choice((8, 8, 8, 12, 16)) * GIB,
            "hugePages": [[size, random.choice((0, 1, 2)) * (1 if size > GIB // 1024 // 2 else 256)] for size in sizes],
        }
        for one in range(count)
    ]


def policy(random: Random) -> Json:
    """Draw a machine, what it knows at its start, and what is asked of it."""
    drawn = nodes(random)
    for one in drawn:
        one["memory"] = max(one["memory"], 5 * GIB)  # more than its huge pages and what it reserves
    reserved = {
        str(one["id"]): {"memory": random.choice((0, GIB // 2, GIB))}
        | {PAGES[size]: size * 1024 for size, number in one["hugePages"] if number and random.random() < 0.2}
        for one in drawn
        if random.random() < 0.9
    }
    names = ["memory", *(PAGES[size] for size, _ in drawn[0]["hugePages"])]
    most = sum(one["memory"] for one in drawn) // GIB
    pods = [pod(random, number, names, most) for number in range(random.randint(1, 4))]
    return {
        "nodes": drawn,
        "reserved": reserved,
        "known": known(random, drawn, reserved, names),
        "steps": [step(random, pods, drawn) for _ in range(random.randint(2, 14))],
    }


def known(random: Random, drawn: Sequence[Json], reserved: Mapping[str, Json], names: Sequence[str]) -> Json:
    """Draw a state: mostly none, else one with a container, often with a fault."""
    if random.random() < 0.75:
        return {"machineState": {}, "entries": {}}
    idle = idle_machine(machine_of(drawn), {int(one): sizes for one, sizes in reserved.items()})
    every = sorted(idle)
    chosen = sorted(random.sample(every, random.randint(1, min(2, len(every)))))
    blocks = [
        {"numaAffinity": chosen, "type": name, "size": random.choice((0, GIB // 2, GIB))}
        for name in names
        if name == "memory" or random.random() < 0.5
    ]
    entries: Json = {"pod-0": {"app-0": blocks}}
    content = content_of(machine_with(idle, assignments_of(entries)), entries)
    machine = content["machineState"]
    first = machine[str(every[0])]
    match random.choice(
        ("right", "right", "right", "empty", "count", "free", "total", "cells", "node", "type", "lost")
    ):
        case "empty":
            content["machineState"] = {}
        case "count":
            first["numberOfAssignments"] += 1
        case "free":
            first["memoryMap"]["memory"]["free"] += 1
        case "total":
            first["memoryMap"]["memory"]["total"] += 1
        case "cells":
            first["cells"] = every
        case "node":
            blocks[0]["numaAffinity"] = [every[-1] + 1]
        case "type":
            blocks[0]["type"] = "hugepages-64Ki"
        case "lost":
            del machine[str(every[-1])]
            first["cells"] = every[:1]
    return content


def pod(random: Random, number: int, names: Sequence[str], most: int) -> Json:
    """Draw a pod, mostly a guaranteed one."""
    guaranteed = random.random() < 0.9
    inits = [
        container(random, f"init-{one}", names, most, guaranteed=guaranteed)
        for one in range(random.choice((0, 0, 1, 2)))
    ]
    for one in inits:
        if random.random() < 0.3:
            one["restartPolicy"] = "Always"
    apps = [
        container(random, f"app-{one}", names, most, guaranteed=guaranteed) for one in range(random.choice((1, 1, 2)))
    ]
    spec: Json = {"initContainers": inits, "containers": apps}
    if random.random() < 0.03:
        spec["resources"] = {kind: {"cpu": "2", "memory": "1Gi"} for kind in ("requests", "limits")}
    return {"metadata": {"name": f"pod-{number}", "uid": f"pod-{number}"}, "spec": spec}


def container(random: Random, name: str, names: Sequence[str], most: int, *, guaranteed: bool) -> Json:
    """Draw a container; some ask for a part of a byte."""
    memory = f"{random.randint(1, max(1, most // random.choice((1, 2, 4, 4, 8))))}Gi"
    if random.random() < 0.03:
        memory = random.choice(("1500m", "1048576500m"))
    amounts = {"cpu": "1", "memory": memory}
    amounts |= {one: random.choice(("512Mi", "1Gi", "2Gi", "0")) for one in names[1:] if random.random() < 0.4}
    limits = amounts if guaranteed else {**amounts, "memory": "500Gi"}
    return {"name": name, "resources": {"requests": amounts, "limits": limits}}


def step(random: Random, pods: Sequence[Json], drawn: Sequence[Json]) -> Json:
    """Draw what is asked about one container."""
    one = random.choice(pods)
    names = [each["name"] for each in (*one["spec"]["initContainers"], *one["spec"]["containers"])]
    every = [each["id"] for each in drawn]
    chosen = sorted(random.sample(every, random.randint(1, len(every)))) if random.random() < 0.5 else None
    return {
        "do": random.choice(("allocate", "allocate", "allocate", "release", "hints", "podHints")),
        "pod": one,
        "container": random.choice(names),
        "affinity": {"nodes": chosen, "preferred": random.random() < 0.4},
    }


def reservations(random: Random) -> Json:
    """Draw the two keys, and what the node reserves."""
    drawn = nodes(random)
    amount = random.choice(("1Gi", "1124Mi", "1100000k", "1536Mi", "2G"))
    reserved = {"memory": amount} if random.random() < 0.9 else {}
    if random.random() < 0.1:
        reserved["hugepages-2Mi"] = "4Mi"
    if random.random() < 0.5:
        reserved["cpu"] = "500m"
    split = [Json(numaNode=drawn[0]["id"], limits={"memory": amount})]
    if amount == "1536Mi" and len(drawn) > 1:
        split = [Json(numaNode=one["id"], limits={"memory": "768Mi"}) for one in drawn[:2]]
    split = mistaken(random, split, reserved)
    return {
        "policy": random.choice(("Static",) * 8 + ("None", "BestEffort", "static")),
        "nodes": drawn,
        "reserved": reserved,
        "given": split,
    }


def mistaken(random: Random, split: list[Json], reserved: Json) -> list[Json]:
    """Make a mistake, mostly."""
    match random.choice(("right", "right", "none", "node", "zero", "twice", "type", "more", "pages", "part")):
        case "none":
            split = []
        case "node":
            split[0]["numaNode"] = random.choice((9, -1))
        case "zero":
            split[0]["limits"]["memory"] = "0"
        case "twice":
            split.append(split[0])
        case "type":
            split[0]["limits"][random.choice(("cpu", "ephemeral-storage", "hugepages2Mi"))] = "1"
        case "more":
            split[0]["limits"]["memory"] = random.choice(("100Mi", "3G", "123456789"))
        case "pages":
            split[0]["limits"]["hugepages-2Mi"] = "4Mi"
        case "part":
            split[0]["limits"]["memory"] = reserved["memory"] = "1073741824500m"
    return split


def state(random: Random) -> Json:
    """Draw what a state file says; the kubelet writes it."""
    resources = ["memory", *random.sample(tuple(PAGES.values()), random.randint(0, 2))]

    def size() -> int:
        return random.choice((0, random.getrandbits(20), random.getrandbits(40)))

    machine = {
        str(node): {
            "numberOfAssignments": random.randint(0, 12),
            "memoryMap": {
                one: {name: size() for name in ("total", "systemReserved", "allocatable", "reserved", "free")}
                for one in resources
            },
            "cells": sorted({node, *random.sample(range(12), random.randint(0, 2))}),
        }
        for node in random.sample(range(12), random.randint(0, 4))
    }
    entries = {
        f"{random.getrandbits(64):x}": {
            f"c{random.randint(0, 99)}": [
                {"numaAffinity": sorted(random.sample(range(12), random.randint(1, 2))), "type": one, "size": size()}
                for one in sorted(resources)
            ]
            for _ in range(random.randint(1, 3))
        }
        for _ in range(random.randint(0, 3))
    }
    return {"policy": random.choice(("Static", "None")), "machineState": machine, "entries": entries}


def file(random: Random) -> Json:
    """Draw a state file that tempolet writes; the kubelet reads it."""
    drawn = state(random)
    text = written_state(drawn["policy"], state_of(drawn))
    match random.choice(("right", "right", "no-sum", "sum", "policy", "content")):
        case "no-sum":
            text = json.dumps({**json.loads(text), "checksum": 0})
        case "sum":
            text = json.dumps({**json.loads(text), "checksum": 1})
        case "policy":
            drawn["policy"] = "Static" if drawn["policy"] == "None" else "None"
        case "content":
            text = text.replace('"size":0', '"size":1')
    return {"policy": drawn["policy"], "text": text}


KINDS: Final[Mapping[str, Callable[[Random], Json]]] = {
    "memory-policy": policy,
    "memory-reservations": reservations,
    "memory-state": state,
    "memory-file": file,
}
