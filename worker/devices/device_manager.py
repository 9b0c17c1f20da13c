"""The devices that containers have of plugins: the kubelet's device manager, as a provider of `worker/hardware/`.

The rules are pure (`workflows/decide/devices/`), the calls are `plugins.py`, the files are `checkpoint_files.py`. A pod whose plugin has
not registered since the node's start waits for it, where a kubelet rejects it for good.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, Final

import structlog

from activities.hardware.services import ContainerHardware, HardwareRefused
from proto.cri.ownership import DEVICES_ANNOTATION
from proto.cri.runtime_container import RuntimeContainer
from proto.temporal.hardware.ledger import UNEXPECTED, ContainerAssignment, GivenDevices, PodAssignment
from proto.temporal.pod import PodJson
from worker.devices.checkpoint_files import CheckpointFiles
from worker.devices.counts import Counts
from worker.devices.plugin_news import FailedCall
from worker.devices.plugins import DevicePlugins
from worker.devices.usages import added, usage
from workflows.decide.devices.allocation import (
    DevicesUnavailable,
    NotYetRegistered,
    Preference,
    Request,
    choose,
    ordered,
    usable,
)
from workflows.decide.devices.answers import Usage, conflicts, merged
from workflows.decide.devices.assignments import Assigned, Assignments, PerNode, of_ledger, per_node
from workflows.decide.devices.checkpoint import Checkpoint
from workflows.decide.devices.hints import Wish, device_hints
from workflows.decide.devices.inventory import Listed, is_of_plugins
from workflows.decide.devices.recovery import written_devices
from workflows.decide.devices.requests import (
    NOT_REGISTERED,
    ContainerWants,
    container_wants,
    pod_wants,
    wanted_by,
)
from workflows.decide.devices.room import refuse_long_answer, refuse_long_names
from workflows.decide.topology.hints import Hint, ProviderHints

WAITING: Final = "waiting for its device plugin to register"

_log: Final = structlog.get_logger(__name__)


class DeviceManager:
    """The devices of one node; used from one event loop, for one pod after the other."""

    def __init__(
        self, plugins: DevicePlugins, root_dir: Path, numa_nodes: Sequence[int], known: Checkpoint, *, counts: Counts
    ) -> None:
        """Take the plugins, --root-dir, the machine's NUMA nodes, and what the checkpoint said."""
        self._counts = counts
        self._plugins, self._files, self._numa_nodes = plugins, CheckpointFiles(root_dir), numa_nodes
        self._known = known.assignments
        self._has_ledger = False
        """It was told once what the ledger says."""
        self._usages: dict[tuple[str, str], tuple[Mapping[str, Assigned], Usage]] = {}

    @property
    def known(self) -> Assignments:
        """Who has which devices."""
        return self._known

    def keep(self, assigned: Mapping[str, PodAssignment], counting: Collection[str]) -> None:
        """Take what the ledger says, and free what pods have that do not count.

        What only the file knows of pods that count stays, as far as nobody else has it. What the ledger knows and the file has lost
        is asked for again when its pod is admitted, or a container of it starts.
        """
        self._has_ledger = True
        kept = self._known.only(counting)
        for uid, pod in assigned.items():
            for container, resource, told in of_ledger(pod):
                had = kept.pods.get(uid, {}).get(container, {}).get(resource)
                if had is None or had.ids != told.ids:
                    kept = kept.with_assigned(uid, container, resource, told)
        self._known = kept

    def hints(self, pod: PodJson, container: str) -> ProviderHints:
        """Return where a container could be given its devices."""
        uid, wants = pod["metadata"]["uid"], _named(pod, container)
        wishes = {
            name: Wish(
                count,
                self._known.of(uid, container, name) or frozenset(),
                self._known.used(name),
                self._known.reusable(uid, name, wants.before),
            )
            for name, count in self._mine(wants.wanted).items()
        }
        return device_hints(wishes, self._plugins.inventory, self._numa_nodes)

    def pod_hints(self, pod: PodJson) -> ProviderHints:
        """Return where a whole pod could be given its devices."""
        uid = pod["metadata"]["uid"]
        wishes = {
            name: Wish(count, self._known.of_pod(uid, name), self._known.used(name))
            for name, count in self._mine(pod_wants(pod)).items()
        }
        return device_hints(wishes, self._plugins.inventory, self._numa_nodes)

    async def allocate(self, pod: PodJson, container: str, affinity: Hint) -> None:
        """Give a container its devices; raises HardwareRefused."""
        uid, wants = pod["metadata"]["uid"], _named(pod, container)
        for name, count in sorted(self._mine(wants.wanted).items()):
            request = Request(
                uid=uid,
                container=container,
                resource=name,
                wanted=count,
                has=self._known.of(uid, container, name),
                reusable=self._known.reusable(uid, name, wants.before),
                in_use=self._known.used(name),
                nodes=affinity.nodes,
            )
            await self._give(request, f"{pod['metadata'].get('namespace', '')}/{pod['metadata'].get('name', '')}")

    async def _give(self, request: Request, pod: str = "") -> None:
        """Give devices as a request asks; `pod` is for the log. Raises HardwareRefused."""
        from activities.clients.device_plugins.device_plugin import DevicePluginError  # noqa: PLC0415 - for whom has plugins

        call, socket = "", self._plugins.socket_of(request.resource)
        try:
            chosen = choose(request, self._plugins.inventory)
            if isinstance(chosen, Preference):
                told = ordered(chosen.available), ordered(chosen.must_include), request.wanted
                call = "GetPreferredAllocation"
                chosen = chosen.answered(await self._plugins.preferred(request.resource, *told))
                call = ""
            if not chosen and request.has and not self._answer_of(request):
                chosen = request.has  # the checkpoint was lost: as the kubelet, ask for the same ones again
            if not chosen:
                return
            refuse_long_names(self._known, request, self._per_node(request, chosen))
            begun, call = monotonic(), "Allocate"
            try:
                answer = await self._plugins.allocate(request.resource, ordered(chosen))
            finally:
                self._counts.allocated(request.resource, monotonic() - begun)
            encoded = answer.SerializeToString(deterministic=True)
            refuse_long_answer(self._known, request, encoded)
        except NotYetRegistered as error:
            if request.resource in self._plugins.removed:  # it has come and gone
                raise HardwareRefused(UNEXPECTED, unexpected(error)) from None
            raise HardwareRefused(NOT_REGISTERED, f"{error}: {self._waiting(request.resource)}") from None
        except (DevicesUnavailable, DevicePluginError) as error:
            if call:  # the kubelet's words for the pod name neither the resource nor the plugin
                failed = FailedCall(call, request.resource, socket, pod, request.uid, request.container)
                failed.log(error)
            raise HardwareRefused(UNEXPECTED, unexpected(error)) from None
        assigned = Assigned(self._per_node(request, chosen), encoded)
        self._known = self._known.with_assigned(request.uid, request.container, request.resource, assigned)

    def _waiting(self, resource: str) -> str:
        """Say that a plugin is awaited, and why the one that has come is not in use."""
        why = self._plugins.unused.get(resource)
        return f"{WAITING} ({why})" if why else WAITING

    def _per_node(self, request: Request, chosen: Collection[str]) -> PerNode:
        listed = self._plugins.inventory.get(request.resource)
        return per_node(listed, chosen) if listed else {-1: tuple(ordered(chosen))}

    def _answer_of(self, request: Request) -> bool:
        assigned = self._known.pods[request.uid][request.container][request.resource]
        return assigned.answer is not None

    def state(self) -> Assignments:
        """Return who has which devices."""
        return self._known

    def restore(self, state: Assignments) -> None:
        """Go back."""
        self._known = state

    def given(self, assignment: ContainerAssignment, pod_uid: str, container: str) -> ContainerAssignment:
        """Add a container's devices."""
        found = self._known.pods.get(pod_uid, {}).get(container, {})
        devices = tuple(
            GivenDevices(name, tuple(ids), node)
            for name, assigned in sorted(found.items())
            for node, ids in sorted(assigned.devices.items())
        )
        return replace(assignment, devices=devices) if devices else assignment

    def why(self, pod: PodJson, container: str) -> str:
        """Say which devices a container has and where they are."""
        found = self._known.pods.get(pod["metadata"]["uid"], {}).get(container, {})
        return "; ".join(assigned.words(container, name) for name, assigned in sorted(found.items()) if assigned.ids)

    def of(self, made: ContainerHardware, pod_uid: str, container: str) -> ContainerHardware:
        """Add what plugins want a container to have."""
        found = self._known.pods.get(pod_uid, {}).get(container)
        if not found:
            return made
        used = added(made, self._usage(pod_uid, container, found))
        annotations = {**used.annotations, DEVICES_ANNOTATION: written_devices(found)}
        if not annotations[DEVICES_ANNOTATION]:  # a plugin's own word does not count
            del annotations[DEVICES_ANNOTATION]
        return replace(used, annotations=annotations)

    def recover(self, left: Sequence[RuntimeContainer]) -> None:
        """Take nothing: which devices a container has is in the runtime's list, which lacks none."""

    def has_lost(self, pod_uid: str, container: Mapping[str, Any]) -> bool:
        """Report whether a container has devices of which nobody knows any more which, or how they are used."""
        return bool(self._lost(pod_uid, container))

    async def regain(self, pod_uid: str, container: Mapping[str, Any]) -> None:
        """Ask plugins again for devices that a container has, or, as a kubelet does, for others if it is lost which it has.

        Which others are free is known once the ledger has been heard; raises HardwareRefused.
        """
        name = str(container["name"])
        for resource, count in self._lost(pod_uid, container).items():
            has = self._known.of(pod_uid, name, resource)
            if has is None and not self._has_ledger:
                continue
            request = Request(
                uid=pod_uid, container=name, resource=resource, wanted=count, has=has, in_use=self._known.used(resource)
            )
            await self._give(request)

    def _lost(self, pod_uid: str, container: Mapping[str, Any]) -> dict[str, int]:
        """Return how many devices a container wants, by resource, where its plugin's answer is not known."""
        has = self._known.pods.get(pod_uid, {}).get(str(container["name"]), {})
        wanted = self._wanted(container)
        return {name: count for name, count in wanted.items() if name not in has or has[name].answer is None}

    def _wanted(self, container: Mapping[str, Any]) -> dict[str, int]:
        wanted = wanted_by(container)
        return {name: wanted[name] for name in sorted(wanted) if wanted[name] and self._is_of_plugins(name)}

    def refuse_missing(self, pod_uid: str) -> None:
        """Check that all devices of a pod are healthy; raises DevicesUnavailable.

        That is NotYetRegistered if nothing is known against them, and some plugin has not listed its devices yet.
        """
        waits: NotYetRegistered | None = None
        for container in self._known.pods.get(pod_uid, {}).values():
            for resource, assigned in sorted(container.items()):
                try:
                    usable(resource, self._plugins.inventory.get(resource), assigned.ids)
                except NotYetRegistered as error:
                    waits = error
        if waits:
            raise waits

    async def starting(self, pod_uid: str, container: Mapping[str, Any]) -> None:
        """Have plugins prepare the devices of a container that is about to start; raises HardwareRefused.

        A container does not start without its devices: neither before its plugin has registered again, nor if nobody knows which
        it has.
        """
        name = str(container["name"])
        has = self._known.pods.get(pod_uid, {}).get(name, {})
        for resource in self._wanted(container):
            assigned = has.get(resource)
            if assigned is None or assigned.answer is None:
                raise HardwareRefused(
                    UNEXPECTED,
                    f"no devices found allocated in local cache for pod {pod_uid}, container {name}, resource {resource}",
                )
            if assigned.ids:
                socket = self._plugins.socket_of(resource)
                await self._prepare(assigned, FailedCall("PreStartContainer", resource, socket, "", pod_uid, name))

    async def _prepare(self, assigned: Assigned, if_fails: FailedCall) -> None:
        from activities.clients.device_plugins.device_plugin import DevicePluginError  # noqa: PLC0415 - for whom has plugins

        resource = if_fails.resource
        if not self._plugins.inventory.get(resource, Listed()).registered:
            raise HardwareRefused(NOT_REGISTERED, f"{resource}: {self._waiting(resource)}")
        try:
            await self._plugins.pre_start(resource, ordered(assigned.ids))
        except DevicePluginError as error:
            if_fails.log(error)
            raise HardwareRefused(UNEXPECTED, str(error)) from None

    def started(self, pod_uid: str, container: str) -> bool:  # noqa: ARG002 - the Protocol's signature
        """Free nothing: the devices of init containers are the next containers', and the pod's until it is over."""
        return False

    def is_quota_off(self, pod_uid: str) -> bool:  # noqa: ARG002 - the Protocol's signature
        """Report that quotas apply."""
        return False

    def release(self, uids: Collection[str]) -> bool:
        """Free the devices of pods that are over."""
        before = self._known
        self._known = before.only(before.pods.keys() - set(uids))
        return len(self._known.pods) != len(before.pods)

    def holders(self) -> Collection[str]:
        """Return the uids of the pods that have devices."""
        return tuple(self._known.pods)

    def save(self) -> None:
        """Write the checkpoint; raises OSError. May be called by several threads; the last one writes the newest."""
        with self._files.turn:
            self._files.write(self._known, self._plugins.inventory)

    def _mine(self, wanted: Mapping[str, int]) -> dict[str, int]:
        inventory, allocated = self._plugins.inventory, self._known.resources()
        return {name: count for name, count in wanted.items() if is_of_plugins(name, inventory, allocated)}

    def _is_of_plugins(self, resource: str) -> bool:
        """Report whether a plugin has the resource, or had it."""
        plugins = self._plugins
        return resource in plugins.removed or is_of_plugins(resource, plugins.inventory, self._known.resources())

    def _usage(self, uid: str, container: str, found: Mapping[str, Assigned]) -> Usage:
        known = self._usages.get((uid, container))
        if known and known[0] == found:
            return known[1]
        answers = {name: usage(assigned.answer or b"") for name, assigned in found.items()}
        for conflict in conflicts(answers):
            _log.error("device plugins set the same thing differently", podUID=uid, container=container, what=conflict)
        self._usages = {key: one for key, one in self._usages.items() if key[0] in self._known.pods}
        self._usages[uid, container] = found, merged(answers)
        return self._usages[uid, container][1]


def _named(pod: PodJson, container: str) -> ContainerWants:
    return next(one for one in container_wants(pod) if one.name == container)


def unexpected(error: Exception) -> str:
    """Return the kubelet's message for a pod that cannot have its devices."""
    return f"Allocate failed due to {error}, which is unexpected"
