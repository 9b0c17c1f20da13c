"""Random machines, hints and pods: a seed makes the same case everywhere."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from random import Random
from typing import Any, Final

from workflows.decide.topology.options import CLOSEST, MOST_NODES
from workflows.decide.topology.policies import POLICIES
from workflows.decide.topology.scopes import SCOPES

Json = dict[str, Any]
RESOURCES: Final = ("cpu", "memory", "hugepages-2Mi", "vendor.example/device")
WRONG_OPTIONS: Final = (
    {"": "true"},
    {"prefer-closest-numa": "true"},
    {CLOSEST: "yes"},
    {CLOSEST: ""},
    {MOST_NODES: "7"},
    {MOST_NODES: "-9"},
    {MOST_NODES: "+7"},
    {MOST_NODES: "8.5"},
    {MOST_NODES: ""},
    {MOST_NODES: "1_0"},
    {MOST_NODES: "99999999999999999999"},
    {MOST_NODES: " 8"},
)


def case(seed: int, kind: str = "") -> Json:
    """Draw a case, of any kind if none is given."""
    random = Random(seed)
    kind = kind or random.choice(tuple(KINDS))
    return {"kind": kind, **KINDS[kind](random)}


def nodes(random: Random, *, most: int = 6) -> list[Json]:
    """Draw NUMA nodes and the distances between them; Linux may leave out numbers, the kubelet's distances may not."""
    count = random.choice((1, 2, 2, 2, 3, 4, 4, most))
    apart = random.choice((1, 2, 4))
    return [
        {
            "id": one,
            "distances": [10 if one == other else distance(random, one, other, apart) for other in range(count)],
        }
        for one in range(count)
    ]


def distance(random: Random, one: int, other: int, apart: int) -> int:
    """Draw how far two nodes are from each other: often only whether they share a socket counts."""
    if random.random() < 0.2:
        return random.randint(11, 40)
    return 12 if one // apart == other // apart else 32


def hints(random: Random, every: Sequence[int], most: int) -> list[Json] | None:
    """Draw what one resource allows."""
    if random.random() < 0.08:
        return None
    sets = [list(some) for size in range(1, len(every) + 1) for some in combinations(every, size)]
    if random.random() < 0.05:
        sets += [[], [7], [0, 9]]
    least = random.choice((1, 1, 1, 2, 3))
    chosen = random.sample(sets, min(len(sets), random.randint(0, most)))
    found: list[Json] = [
        {"nodes": some, "preferred": len(some) == least if random.random() < 0.85 else random.random() < 0.5}
        for some in sorted(chosen, key=lambda some: (len(some), some))
    ]
    if random.random() < 0.08:
        found.append({"nodes": None, "preferred": random.random() < 0.7})
    return found


def provider(random: Random, every: Sequence[int], most: int) -> Json | None:
    """Draw the hints of one provider."""
    if random.random() < 0.1:
        return random.choice((None, {}))
    names = random.sample(RESOURCES, random.choice((1, 1, 1, 2)))
    return {name: hints(random, every, most) for name in names}


def merge(random: Random) -> Json:
    """Draw hints for one policy."""
    machine = nodes(random)
    every = [one["id"] for one in machine]
    count = random.choice((0, 1, 2, 2, 3, 3))
    return {
        "nodes": machine,
        "policy": random.choice(POLICIES),
        "closest": random.random() < 0.5,
        "providers": [provider(random, every, 7 if count < 3 else 4) for _ in range(count)],
    }


def admit(random: Random) -> Json:
    """Draw a manager and a pod."""
    machine = nodes(random, most=random.choice((6, 9)))
    every = [one["id"] for one in machine[:5]]
    inits = [f"init-{one}" for one in range(random.choice((0, 0, 1, 2)))]
    apps = [f"app-{one}" for one in range(random.choice((1, 1, 2, 3)))]
    options = {name: value for name, value in ((CLOSEST, choice(random)), (MOST_NODES, most_nodes(random))) if value}
    if random.random() < 0.15:
        options = random.choice(WRONG_OPTIONS)
    if random.random() < 0.1:
        for one in machine:
            one["distances"] = None
    return {
        "nodes": machine,
        "policy": random.choice(POLICIES) if random.random() < 0.95 else "strict",
        "scope": random.choice(SCOPES) if random.random() < 0.95 else "node",
        "options": options,
        "inits": inits,
        "apps": apps,
        "refused": random.choice((*inits, *apps)) if random.random() < 0.1 else "",
        "providers": [
            {
                "containers": {name: provider(random, every, 5) for name in (*inits, *apps)},
                "pod": provider(random, every, 5),
            }
            for _ in range(random.choice((1, 2, 3)))
        ],
    }


def choice(random: Random) -> str:
    """Draw whether the closest nodes are preferred; empty if the option is not given."""
    return random.choice(("", "", "true", "T", "1", "false", "0"))


def most_nodes(random: Random) -> str:
    """Draw how many nodes a machine may have; empty if the option is not given."""
    return random.choice(("", "", "", "8", "9", "16", "+8", "008"))


KINDS: Final[Mapping[str, Callable[[Random], Json]]] = {"topology": admit, "topology-merge": merge}
