"""Whether tempolet takes the CPUs that the kubelet takes, over many seeds."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster.decisions.cpus.cases import case
from tests.cluster.decisions.tally import Subject, Tally, tally
from workflows.decide.cpus import hints, static_policy
from workflows.decide.cpus.cpu_sets import parse_cpus, written_cpus
from workflows.decide.cpus.distributed import take_distributed
from workflows.decide.cpus.options import Gates, option_faults, parse_options, why_not_here
from workflows.decide.cpus.packed import CpusError, take_packed
from workflows.decide.cpus.requests import pod_request
from workflows.decide.cpus.state_file import read_state, written_state
from workflows.decide.cpus.static_policy import Assignments, StateError, StaticPolicy
from workflows.decide.cpus.topology import Place, Places, Topology
from workflows.decide.topology.hints import Hints

Json = Mapping[str, Any]


def compare(program: Path, first: int, number: int, kind: str = "") -> Tally:
    """Compare the cases of consecutive seeds."""
    return tally(program, range(first, first + number), Subject(partial(case, kind=kind), deeds, differences))


def deeds(asked: Json, theirs: Json) -> Iterator[str]:
    """Name what the kubelet did."""
    refused = "error" in theirs
    match asked["kind"]:
        case "cpus":
            how = "distributed" if asked["group"] else "packed"
            yield f"{how} refused" if refused else how
        case "cpu-policy" if refused:
            yield "starts refused"
        case "cpu-policy":
            for step, answer in zip(asked["steps"], theirs["steps"], strict=True):
                yield f"{step['do']} refused" if answer["error"] else step["do"]
        case _:
            yield "state files"


def differences(asked: Json, theirs: Json) -> Iterator[str]:
    """Yield what differs between our decision and theirs."""
    match asked["kind"]:
        case "cpus":
            ours = taken(asked)
            if ours != theirs:
                yield f"{ours}, but {theirs}"
        case "cpu-policy":
            yield from of_policy(asked, theirs)
        case _:
            yield from of_state(asked, theirs)


def topology(machine: Json) -> Topology:
    """Make the topology of a case."""
    places = Places({cpu: Place(node, socket, core, cache) for cpu, node, socket, core, cache in machine["cpus"]})
    caches = {one.cache for one in places.by_cpu.values()}
    return Topology(places, len(places), machine["cores"], machine["sockets"], len(places.nodes), len(caches))


def taken(asked: Json) -> Json:
    """Take CPUs."""
    here, free, count = topology(asked["machine"]), frozenset(asked["available"]), asked["count"]
    try:
        if asked["group"]:
            cpus = take_distributed(here, free, count, asked["group"], spread=asked["spread"])
        else:
            cpus = take_packed(here, free, count, spread=asked["spread"], align_by_cache=asked["byCache"])
    except CpusError as error:
        return {"error": str(error)}
    return {"cpus": written_cpus(cpus)}


def of_policy(asked: Json, theirs: Json) -> Iterator[str]:
    """Compare a start, or all steps after it."""
    gates = Gates(alpha=asked["alpha"], beta=asked["beta"])
    faults = list(option_faults(asked["options"], gates))
    if not faults:
        try:
            policy, known = started(asked, gates)
        except (CpusError, StateError) as error:
            faults = [str(error)]
    if faults or "error" in theirs:
        if theirs.get("error") not in faults:
            yield f"{faults}, but {theirs.get('error')!r}"
        return
    for at, (step, answer) in enumerate(zip(asked["steps"], theirs["steps"], strict=True)):
        known, ours = done(policy, known, step)
        if ours != answer:
            yield f"step {at} {step['do']}: {ours}, but {answer}"
            return


def started(asked: Json, gates: Gates) -> tuple[StaticPolicy, Assignments]:
    """Start a policy."""
    here, options = topology(asked["machine"]), parse_options(asked["options"], gates)
    if why := why_not_here(options, here, asked["topologyPolicy"]):
        raise CpusError(why)
    policy = static_policy.static_policy(here, options, asked["count"], frozenset(asked["reserved"]))
    containers = {
        uid: {name: frozenset(cpus) for name, cpus in given.items()} for uid, given in asked["containers"].items()
    }
    return policy, static_policy.begun(policy, Assignments(frozenset(asked["shared"]), containers))


def done(policy: StaticPolicy, known: Assignments, step: Json) -> tuple[Assignments, Json]:
    """Do one step; returns what is known then, and the answer in the program's words."""
    pod, name, error = pod_request(step["pod"]), step["container"], ""
    found: Hints = None
    match step["do"]:
        case "allocate":
            try:
                known = static_policy.allocate(policy, known, pod, name, affinity=step["affinity"])
            except CpusError as refusal:
                error = str(refusal)
        case "release":
            known = static_policy.released(known, pod.uid, name)
        case "hints":
            found = hints.container_hints(policy, known, pod, name)
        case _:
            found = hints.pod_hints(policy, known, pod)
    has = {uid: {one: written_cpus(cpus) for one, cpus in given.items()} for uid, given in known.containers.items()}
    shown = None if found is None else [{"nodes": list(one.nodes or ()), "preferred": one.preferred} for one in found]
    return known, {"error": error, "hints": shown, "shared": written_cpus(known.shared), "has": has}


def of_state(asked: Json, theirs: Json) -> Iterator[str]:
    """Compare the text of a state file, and read theirs."""
    entries = {uid: {name: parse_cpus(cpus) for name, cpus in one.items()} for uid, one in asked["entries"].items()}
    given = Assignments(parse_cpus(asked["shared"]), entries)
    ours = written_state(asked["policy"], given)
    if ours != theirs["text"]:
        yield f"{ours}, but {theirs['text']}"
    elif read_state(asked["policy"], theirs["text"]) != given:
        yield "read otherwise than written"
