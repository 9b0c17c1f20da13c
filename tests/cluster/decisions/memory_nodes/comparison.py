"""Whether tempolet gives the memory that the kubelet gives, over many seeds."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from proto.kubernetes.resources.quantity import parse_with_form
from tests.cluster.decisions.memory_nodes.cases import case
from tests.cluster.decisions.memory_nodes.contents import content_of_state, machine_of, state_of
from tests.cluster.decisions.tally import Subject, Tally, tally
from workflows.decide.memory_nodes import hints, reservations, static_policy
from workflows.decide.memory_nodes.amounts import Assignments
from workflows.decide.memory_nodes.requests import MemoryNodesError, pod_request
from workflows.decide.memory_nodes.state_file import read_state, written_state
from workflows.decide.memory_nodes.static_policy import StateError
from workflows.decide.topology.hints import Hint, ProviderHints

Json = Mapping[str, Any]


def compare(program: Path, first: int, number: int, kind: str = "") -> Tally:
    """Compare the cases of consecutive seeds."""
    return tally(program, range(first, first + number), Subject(partial(case, kind=kind), deeds, differences))


def deeds(asked: Json, theirs: Json) -> Iterator[str]:
    """Name what the kubelet did."""
    match asked["kind"]:
        case "memory-policy" if "error" in theirs:
            yield "starts refused"
        case "memory-policy":
            for step, answer in zip(asked["steps"], theirs["steps"], strict=True):
                yield f"{step['do']} refused" if answer["error"] else step["do"]
        case "memory-reservations":
            yield "reservations refused" if theirs["error"] or theirs["faults"] else "reservations"
        case "memory-state":
            yield "state files written"
        case _:
            yield "state files refused" if "error" in theirs else "state files read"


def differences(asked: Json, theirs: Json) -> Iterator[str]:
    """Yield what differs between our decision and theirs."""
    match asked["kind"]:
        case "memory-policy":
            yield from of_policy(asked, theirs)
        case "memory-reservations":
            yield from of_reservations(asked, theirs)
        case "memory-state":
            given = state_of(asked)
            ours = written_state(asked["policy"], given)
            if ours != theirs["text"]:
                yield f"{ours}, but {theirs['text']}"
            elif read_state(asked["policy"], theirs["text"]) != given:
                yield "read otherwise than written"
        case _:
            yield from of_file(asked, theirs)


def of_policy(asked: Json, theirs: Json) -> Iterator[str]:
    """Compare a start, or all steps after it."""
    reserved = {int(node): sizes for node, sizes in asked["reserved"].items()}
    refusal = ""
    if not any(one.get("memory") for one in reserved.values()):
        refusal = reservations.NOTHING_RESERVED
    else:
        try:
            known = static_policy.begun(
                static_policy.idle_machine(machine_of(asked["nodes"]), reserved), state_of(asked["known"])
            )
        except StateError as error:
            refusal = str(error)
    if refusal or "error" in theirs:
        if theirs.get("error") != refusal:
            yield f"{refusal!r}, but {theirs.get('error')!r}"
        return
    for at, (step, answer) in enumerate(zip(asked["steps"], theirs["steps"], strict=True)):
        known, ours = done(known, step)
        if ours != answer:
            yield f"step {at} {step['do']}: {ours}, but {answer}"
            return


def done(known: Assignments, step: Json) -> tuple[Assignments, Json]:
    """Do one step; returns what is known then, and the answer in the program's words."""
    pod, name, error = pod_request(step["pod"]), step["container"], ""
    found: ProviderHints | None = None
    match step["do"]:
        case "allocate":
            nodes, preferred = step["affinity"]["nodes"], step["affinity"]["preferred"]
            affinity = Hint(None if nodes is None else tuple(nodes), preferred)
            try:
                known = static_policy.allocate(known, pod, name, affinity)
            except MemoryNodesError as refusal:
                error = str(refusal)
        case "release":
            known = static_policy.released(known, pod.uid, [name])
        case "hints":
            found = hints.container_hints(known, pod, name)
        case _:
            found = hints.pod_hints(known, pod)
    return known, {"error": error, "hints": written_hints(found), **content_of_state(known)}


def written_hints(found: ProviderHints | None) -> Json | None:
    """Write hints in the program's words."""
    if found is None:
        return None
    return {
        resource: [{"nodes": list(one.nodes or ()), "preferred": one.preferred} for one in some or ()]
        for resource, some in found.items()
    }


def of_reservations(asked: Json, theirs: Json) -> Iterator[str]:
    """Compare what is wrong with the two keys, by themselves and on a machine."""
    given = reservations.reservations(asked["given"])
    faults = sorted(reservations.configuration_faults(given))
    if faults != theirs["faults"]:
        yield f"{faults}, but {theirs['faults']}"
    reserved = {name: reservations.Amount(*parse_with_form(one)) for name, one in asked["reserved"].items()}
    nodes = [one["id"] for one in asked["nodes"]]
    refusals = [reservations.policy_fault(asked["policy"])]
    if asked["policy"] == reservations.STATIC:
        refusals = list(reservations.machine_faults(given, nodes, reserved))
        if not refusals:
            try:
                reservations.reserved_by_node(given, nodes, reserved)
                refusals = [""]
            except reservations.ReservationError as error:
                refusals = [str(error)]
    if theirs["error"] not in refusals:
        yield f"{refusals}, but {theirs['error']!r}"


def of_file(asked: Json, theirs: Json) -> Iterator[str]:
    """Compare what is read of a state file."""
    try:
        ours: Json = content_of_state(read_state(asked["policy"], asked["text"]))
    except StateError as error:
        ours = {"error": restored(str(error), theirs.get("folder", ""))}
    if ours != {name: one for name, one in theirs.items() if name != "folder"}:
        yield f"{ours}, but {theirs}"


def restored(why: str, folder: str) -> str:
    """Write the whole message of a refused start."""
    return (
        f"could not restore state from checkpoint: {why}, please drain this node and delete the memory manager "
        f'checkpoint file "{folder}/memory_manager_state" before restarting Kubelet'
    )
