"""Whether tempolet aligns what the kubelet aligns, over many seeds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.cluster.decisions.tally import Subject, Tally, tally
from tests.cluster.decisions.topology.cases import case
from workflows.decide.topology.hints import Hint, ProviderHints
from workflows.decide.topology.numa_nodes import NumaNodes
from workflows.decide.topology.options import OptionError, Options, option_faults
from workflows.decide.topology.policies import NONE, Policy
from workflows.decide.topology.scopes import (
    REASON,
    TopologyAffinityError,
    TopologyManager,
    TopologyManagerError,
    topology_manager,
)

Json = Mapping[str, Any]
REFUSED: Final = ("UnexpectedAdmissionError", "Allocate failed due to refused, which is unexpected")
"""What the program says of a pod for which one of the case's providers has nothing."""


def compare(program: Path, first: int, number: int, kind: str = "") -> Tally:
    """Compare the cases of consecutive seeds."""
    return tally(program, range(first, first + number), Subject(partial(case, kind=kind), deeds, differences))


def deeds(asked: Json, theirs: Json) -> Iterator[str]:
    """Name what the kubelet did."""
    if "error" in theirs:
        yield "start refused"
    elif asked["kind"] == "topology-merge":
        how = "preferred" if theirs["hint"]["preferred"] else "not preferred"
        yield f"{asked['policy']} {how}"
    elif theirs["admitted"]:
        yield "admitted"
    else:
        yield "not aligned" if theirs["reason"] == REASON else "not allocated"


def differences(asked: Json, theirs: Json) -> Iterator[str]:
    """Yield what differs between our decision and theirs."""
    if asked["kind"] == "topology-merge":
        merged = Policy(asked["policy"], machine(asked), Options(closest=asked["closest"])).merge(
            [provider_hints(one) for one in asked["providers"]]
        )
        ours: Json = {"hint": written(merged.hint), "admitted": merged.is_admitted}
        if ours != theirs:
            yield f"{ours}, but {theirs}"
        return
    faults = list(option_faults(asked["options"])) if asked["policy"] != NONE else []
    if not faults:
        try:
            ours = admitted(asked)
        except (OptionError, TopologyManagerError) as error:
            faults = [str(error)]
    if faults:
        if theirs.get("error") not in faults:
            yield f"{faults}, but {theirs}"
    elif ours != theirs:
        yield f"{ours}, but {theirs}"


def admitted(asked: Json) -> Json:
    """Admit the pod of a case, in the program's words."""
    manager: TopologyManager = topology_manager(asked["policy"], asked["scope"], asked["options"], machine(asked))
    taken: list[Json] = []

    def result(reason: str = "", message: str = "") -> Json:
        return {"admitted": not reason, "reason": reason, "message": message, "taken": taken or None}

    providers = [_Given(one) for one in asked["providers"]]
    try:
        for name, hint in manager.affinities((*asked["inits"], *asked["apps"]), providers):
            taken.append({"container": name, "hint": written(hint)})
            if name == asked["refused"]:
                return result(*REFUSED)
    except TopologyAffinityError as error:
        return result(REASON, str(error))
    return result()


@dataclass(frozen=True, slots=True)
class _Given:
    """A provider whose hints the case tells."""

    case: Json

    def container_hints(self, name: str) -> ProviderHints:
        return provider_hints(self.case["containers"][name])

    def pod_hints(self) -> ProviderHints:
        return provider_hints(self.case["pod"])


def machine(asked: Json) -> NumaNodes:
    """Make the machine of a case."""
    distances = {one["id"]: dict(enumerate(one["distances"])) for one in asked["nodes"] if one["distances"]}
    return NumaNodes(tuple(one["id"] for one in asked["nodes"]), distances)


def provider_hints(given: Json | None) -> ProviderHints:
    """Make the hints of a provider."""
    return {
        resource: None
        if hints is None
        else tuple(Hint(None if one["nodes"] is None else tuple(one["nodes"]), one["preferred"]) for one in hints)
        for resource, hints in (given or {}).items()
    }


def written(hint: Hint) -> Json:
    """Write a hint in the program's words."""
    return {"nodes": None if hint.nodes is None else list(hint.nodes), "preferred": hint.preferred}
