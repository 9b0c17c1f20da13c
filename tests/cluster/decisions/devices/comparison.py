"""Whether tempolet gives the devices that the kubelet gives, over many seeds.

The kubelet takes any devices of a set. So it has to take as many of each set as we do, and the next container goes on from what it
took. What the plugin prefers is taken by both.

One rule differs on purpose. If a pod is admitted again, the kubelet's hints for a container also count devices that init containers had and
a later container has now. tempolet leaves these out. So the hints here are computed from the containers up to this one. Only a container
that wants none of a resource is affected.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from proto.deviceplugin.v1beta1 import api_pb2 as api
from tests.cluster.decisions.devices.cases import case
from tests.cluster.decisions.tally import Subject, Tally, tally
from worker.devices.usages import usage
from workflows.decide.devices.affinity import by_affinity
from workflows.decide.devices.allocation import DevicesUnavailable, Preference, Request, choose
from workflows.decide.devices.answers import Usage, merged
from workflows.decide.devices.assignments import Assigned, Assignments, per_node
from workflows.decide.devices.checkpoint import read_checkpoint, written_checkpoint
from workflows.decide.devices.health import resources_status
from workflows.decide.devices.hints import Wish, device_hints
from workflows.decide.devices.inventory import Listed, is_of_plugins
from workflows.decide.devices.requests import ContainerWants, container_wants, pod_wants
from workflows.decide.topology.hints import Hints

Json = Mapping[str, Any]


def compare(program: Path, first: int, number: int) -> Tally:
    """Compare the cases of consecutive seeds."""
    return tally(program, range(first, first + number), Subject(case, deeds, differences))


def deeds(asked: Json, theirs: Json) -> Iterator[str]:
    """Name what the kubelet did."""
    for step, answer in zip(asked["steps"], theirs["steps"], strict=True):
        for one in answer["containers"] or ():
            if one["error"]:
                yield next((words for words in ERRORS if words in one["error"]), one["error"])
            elif one["has"]:
                yield "containers with devices"
            yield from ("hints" for hints in one["hints"].values() if hints)
        yield step["do"]


ERRORS: Final = ("changed request", "no healthy", "no longer healthy", "unavailable", "unregistered")


def differences(asked: Json, theirs: Json) -> Iterator[str]:
    """Yield what differs between our decisions and theirs."""
    node = Node(asked)
    for at, (step, answer) in enumerate(zip(asked["steps"], theirs["steps"], strict=True)):
        for words in node.after(step, answer):
            yield f"step {at} {step['do']}: {words}"
            return


class Node:
    """A node as we decide, with the devices that the kubelet took."""

    def __init__(self, asked: Json) -> None:
        self._asked = asked
        self._inventory: dict[str, Listed] = {}
        self._known = Assignments()
        self._text = ""

    def after(self, step: Json, theirs: Json) -> Iterator[str]:
        """Do one step, and yield what differs."""
        name = step.get("resource", "")
        match step["do"]:
            case "list":
                self._inventory[name] = listed(step["devices"])
            case "gone" if name in self._inventory:
                self._inventory[name] = self._inventory[name].disconnected()
            case "drop":
                self._forget(step["pod"]["metadata"]["uid"])
            case "admit" if theirs["containers"]:
                yield from self._admitted(step, theirs)
        capacity = {name: str(one.capacity) for name, one in self._inventory.items()}
        allocatable = {name: str(one.allocatable) for name, one in self._inventory.items()}
        if (capacity, allocatable) != (theirs["capacity"], theirs["allocatable"]):
            yield f"capacity {capacity}, {allocatable}, but {theirs['capacity']}, {theirs['allocatable']}"
        if theirs["text"] != self._text:
            yield from self._read(theirs["text"])

    def _admitted(self, step: Json, theirs: Json) -> Iterator[str]:
        pod, uid = step["pod"], step["pod"]["metadata"]["uid"]
        admitted: list[str] = []
        yield from _alike("hints of the pod", self._pod_hints(pod), theirs["podHints"])
        for wants, answer in zip(container_wants(pod), theirs["containers"], strict=False):
            mine = {name: count for name, count in wants.wanted.items() if self._is_of_plugins(name)}
            admitted.append(wants.name)
            yield from _alike(f"hints of {wants.name}", self._hints(uid, wants, mine, admitted), answer["hints"])
            requests = [self._request(uid, wants, name, step["affinities"].get(wants.name)) for name in mine]
            errors, chosen = self._choose(requests)
            if errors or answer["error"]:
                if answer["error"] not in errors:
                    yield f"{wants.name}: {errors}, but {answer['error']!r}"
                self._forget(uid)
                return
            yield from self._taken(requests, chosen, answer)

    def _taken(self, requests: list[Request], chosen: Mapping[str, frozenset[str]], answer: Json) -> Iterator[str]:
        for one in requests:
            theirs = frozenset(answer["has"].get(one.resource, {}))
            mine = chosen[one.resource] or one.has or frozenset()
            if (ours := self._sets(one, mine)) != (kubelets := self._sets(one, theirs)):
                yield f"{one.container} has {sorted(mine)} {ours}, but {sorted(theirs)} {kubelets}"
            if theirs and one.has is None:
                encoded = _message(self._asked["answers"][one.resource]).SerializeToString(deterministic=True)
                assigned = Assigned(per_node(self._inventory[one.resource], theirs), encoded)
                self._known = self._known.with_assigned(one.uid, one.container, one.resource, assigned)
        uid, name = (requests[0].uid, requests[0].container) if requests else ("", "")
        has = self._known.pods.get(uid, {}).get(name, {})
        yield from _alike("usage", _shown(merged({one: _usage(found) for one, found in has.items()})), _theirs(answer))
        status = sorted(answer["status"] or (), key=lambda one: str(one["name"]))
        for one in status:
            one["resources"].sort(key=lambda device: str(device["resourceID"]))
        ours_ = resources_status(self._known, uid, name, self._inventory)
        for shown in ours_:
            shown["resources"].sort(key=lambda device: device["resourceID"])
        yield from _alike("status", ours_, status)

    def _sets(self, request: Request, devices: frozenset[str]) -> list[int]:
        """Count the devices of each set; those that the plugin prefers are named."""
        if request.has is not None:
            return [len(devices), len(devices & request.has)]
        listed = self._inventory.get(request.resource, Listed())
        found = by_affinity(listed, listed.healthy - request.in_use, request.nodes)
        return [
            len(devices & one) for one in (devices, request.reusable, found.aligned, found.unaligned, found.without)
        ]

    def _choose(self, requests: list[Request]) -> tuple[list[str], dict[str, frozenset[str]]]:
        errors, chosen = [], {}
        for one in requests:
            try:
                found = choose(one, self._inventory)
                if isinstance(found, Preference):
                    found = found.answered(self._preferred(found))
                chosen[one.resource] = found
            except DevicesUnavailable as error:
                errors.append(str(error))
        return errors, chosen

    def _preferred(self, asked: Preference) -> list[str]:
        """Prefer as the program's plugin does."""
        too_few = self._asked["prefers"].get(asked.request.resource)
        if too_few is None:
            return []
        others = sorted(asked.available - asked.must_include)
        return [*sorted(asked.must_include), *others][: max(len(asked.must_include), asked.request.wanted - too_few)]

    def _request(self, uid: str, wants: ContainerWants, name: str, nodes: list[int] | None) -> Request:
        return Request(
            uid=uid,
            container=wants.name,
            resource=name,
            wanted=wants.wanted[name],
            has=self._known.of(uid, wants.name, name),
            reusable=self._known.reusable(uid, name, wants.before),
            in_use=self._known.used(name),
            nodes=None if nodes is None else tuple(nodes),
        )

    def _hints(self, uid: str, wants: ContainerWants, mine: Mapping[str, int], admitted: Collection[str]) -> Json:
        has = self._known.pods.get(uid, {})
        so_far = Assignments({uid: {name: has[name] for name in admitted if name in has}})
        wishes = {
            name: Wish(
                count,
                self._known.of(uid, wants.name, name) or frozenset(),
                self._known.used(name),
                so_far.reusable(uid, name, wants.before),
            )
            for name, count in mine.items()
        }
        return _shown_hints(device_hints(wishes, self._inventory, self._asked["nodes"]))

    def _pod_hints(self, pod: Json) -> Json:
        uid = pod["metadata"]["uid"]
        wishes = {
            name: Wish(count, self._known.of_pod(uid, name), self._known.used(name))
            for name, count in pod_wants(pod).items()
            if self._is_of_plugins(name)
        }
        return _shown_hints(device_hints(wishes, self._inventory, self._asked["nodes"]))

    def _is_of_plugins(self, name: str) -> bool:
        return is_of_plugins(name, self._inventory, self._known.resources())

    def _forget(self, uid: str) -> None:
        self._known = self._known.only(self._known.pods.keys() - {uid})

    def _read(self, text: str) -> Iterator[str]:
        """Read their checkpoint, and write it again."""
        self._text = text
        found = read_checkpoint(text)
        if read_checkpoint(written_checkpoint(found)) != found:
            yield "the checkpoint is read otherwise than written"
        if (
            not {name: set(ids) for name, ids in found.registered.items()}.items()
            >= {name: set(one.healthy) for name, one in self._inventory.items() if one.healthy}.items()
        ):
            yield f"the checkpoint registers {found.registered}"
        for uid, container, resource, assigned in self._known.entries():
            theirs = found.assignments.pods.get(uid, {}).get(container, {}).get(resource)
            if theirs and (theirs.ids, _usage(theirs)) != (assigned.ids, _usage(assigned)):
                yield f"the checkpoint has {theirs} for {assigned}"


def listed(devices: list[Json]) -> Listed:
    """Make what a plugin lists."""
    nodes = {one["id"]: tuple(one["nodes"]) for one in devices}
    healthy = frozenset(one["id"] for one in devices if one["healthy"])
    return Listed(nodes, healthy, frozenset(nodes) - healthy)


def _usage(assigned: Assigned) -> Usage:
    assert assigned.answer is not None
    return usage(assigned.answer)


def _message(answer: Json) -> api.ContainerAllocateResponse:
    return api.ContainerAllocateResponse(**answer)


def _shown(usage: Usage) -> Json:
    return {
        "env": dict(usage.env),
        "mounts": sorted((one.container_path, one.host_path, one.read_only) for one in usage.mounts),
        "devices": sorted((one.container_path, one.host_path, one.permissions) for one in usage.devices),
        "annotations": dict(usage.annotations),
        "cdi": sorted(usage.cdi_devices),
    }


def _theirs(answer: Json) -> Json:
    found = answer["options"] or {}
    return {
        "env": {one["Name"]: one["Value"] for one in found.get("Envs") or ()},
        "mounts": sorted((one["ContainerPath"], one["HostPath"], one["ReadOnly"]) for one in found.get("Mounts") or ()),
        "devices": sorted(
            (one["PathInContainer"], one["PathOnHost"], one["Permissions"]) for one in found.get("Devices") or ()
        ),
        "annotations": {one["Name"]: one["Value"] for one in found.get("Annotations") or ()},
        "cdi": sorted(one["Name"] for one in found.get("CDIDevices") or ()),
    }


def _shown_hints(found: Mapping[str, Hints]) -> Json:
    return {
        name: None if hints is None else [{"nodes": list(one.nodes or ()), "preferred": one.preferred} for one in hints]
        for name, hints in found.items()
    }


def _alike(what: str, ours: Any, theirs: Any) -> Iterator[str]:
    if ours != theirs:
        yield f"{what}: {ours}, but {theirs}"
