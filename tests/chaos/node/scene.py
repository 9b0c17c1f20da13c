"""What a fault may reach: a node between a CRI proxy and Temporal, what is done to them, and the timeline of that."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final

import grpc

from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc
from tests.chaos.node.api_proxy import ApiProxy
from tests.chaos.node.cni_plugin import CniPlugin
from tests.chaos.node.cri_proxy import CHANGING, CallFault, CriProxy
from tests.chaos.node.ledger import POD_UID, Call
from tests.chaos.node.stepped_clock import SteppedClock
from tests.chaos.node.temporal_proxy import TemporalProxy
from tests.csi.process import DriverProcess
from tests.node.tempolet_node import TempoletNode
from tests.waiting import wait_until
from worker.standalone.containerd import Containerd
from worker.standalone.machine.leftovers import shims_of
from worker.standalone.temporal_server import TemporalFailed, TemporalServer

PHASES: Final = ("starting", "running", "deleting")
MOST_CALLS: Final = {"starting": 12, "running": 3, "deleting": 9}
"""About so many calls that change something a scenario's work has: the fault strikes after some of them."""
QUIET: Final = 2.0
"""Seconds without a call that changes something, after which a fault strikes anyway: a scenario may have fewer such calls."""
STRUCK_WITHIN: Final = 25.0
LED_WITHIN: Final = 4.0
"""Seconds after those that Temporal may be silent."""
LOOK_EVERY: Final = 0.3
ANSWERS_WITHIN: Final = 5.0


class Place(StrEnum):
    """Where a scenario plays."""

    STANDALONE = "standalone"
    """A node with manifests in a folder."""
    OWN_CLOCK = "own clock"
    """The same, whose processes have a wall clock of their own."""
    FAR_FROM_TEMPORAL = "far from Temporal"
    """The same, with a proxy between its processes and Temporal."""
    CLUSTER = "cluster"
    """A node of a cluster, with pods of the API server."""


@dataclass
class Scene:
    """One scenario's node; from one thread, except `note` and `kill`."""

    node: TempoletNode
    proxy: CriProxy
    cni: CniPlugin
    rng: Random
    away_after: float
    phase: str
    """What the pods do when the fault strikes: one of PHASES."""
    calls_before: int = 0
    """So many calls of the ledger are of earlier scenarios on this node."""
    given_clock: SteppedClock | None = None
    given_driver: DriverProcess | None = None
    given_api: ApiProxy | None = None
    given_way: TemporalProxy | None = None
    began: float = field(default_factory=time.monotonic)
    timeline: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """What the observer saw that may never be so."""

    @property
    def containerd(self) -> Containerd:
        """The session's."""
        return self.node.containerd

    @property
    def temporal(self) -> TemporalServer:
        """The session's."""
        return self.node.temporal

    @property
    def clock(self) -> SteppedClock:
        """The clock of the node's processes."""
        assert self.given_clock, "the fault's place has a clock of its own"
        return self.given_clock

    @property
    def driver(self) -> DriverProcess:
        """The CSI driver."""
        assert self.given_driver, "the fault's row asks for a CSI driver"
        return self.given_driver

    @property
    def api(self) -> ApiProxy:
        """What is between the node and its API server."""
        assert self.given_api, "the fault's place is a cluster"
        return self.given_api

    @property
    def way_to_temporal(self) -> TemporalProxy:
        """What is between the node and Temporal."""
        assert self.given_way, "the fault's place is far from Temporal"
        return self.given_way

    def note(self, what: str) -> None:
        """Write into the timeline."""
        self.timeline.append(f"{time.monotonic() - self.began:7.2f} s {what}")

    def kill(self, role: str) -> None:
        """Kill a process of the node; any thread may."""
        process = self.node.processes[role]
        self.note(f"kill -9 {role}, pid {process.pid}")
        process.kill()

    def back(self, role: str) -> None:
        """Start a process again that was killed."""
        self.node.processes.pop(role).wait()
        self.node.start(role)
        self.note(f"{role} started again")

    def supervise(self) -> None:
        """Start the node's processes that have ended by themselves, as systemd does."""
        for role in self.node.roles:
            if (code := self.node.processes[role].poll()) is not None:
                self.note(f"{role} had ended with {code}, started again")
                self.node.start(role)

    @contextlib.contextmanager
    def suspended(self, pid: int, what: str) -> Iterator[None]:
        """Suspend a process while the block runs."""
        self.note(f"SIGSTOP {what}")
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            self.note(f"SIGCONT {what}")

    def containerd_pid(self) -> int:
        """Return containerd's pid."""
        running = self.containerd.process.running()
        assert running, "containerd runs"
        return running.pid

    def shims(self) -> list[int]:
        """List the shims of this containerd."""
        return shims_of(self.containerd.socket)

    def call_fault(self, fault: CallFault) -> CallFault:
        """Have the proxy do something to calls."""
        self.proxy.faults.append(fault)
        self.note(
            f"armed: {fault.name}, {sorted(fault.methods) or 'all that change'}, {fault.where}, after {fault.skip}"
        )
        return fault

    def after_calls(self, number: int, patience: float = 20.0) -> None:
        """Wait until so many more calls have begun that change something, or until there are none for a while."""
        before = len(self._changing())
        self._until(lambda: len(self._changing()) >= before + number, patience)

    def after_some_calls(self) -> None:
        """Wait for a moment while the pods do what they do."""
        self.after_calls(self.rng.randrange(MOST_CALLS[self.phase]))

    def until_struck(self, struck: Callable[[], bool]) -> None:
        """Wait until an armed fault has struck, or until nothing happens any more that it could strike."""
        self._until(struck, STRUCK_WITHIN)
        if not struck():
            self.note("it has not struck as armed")

    def until_led(self) -> None:
        """Wait until the node leads pods without Temporal: it does once something is due; or for as long as that may take."""
        log = self.node.directory / "worker.log"
        before, deadline = log.stat().st_size, time.monotonic() + self.away_after + LED_WITHIN
        while b" without Temporal" not in log.read_bytes()[before:] and time.monotonic() < deadline:
            time.sleep(0.05)
        self.note("the node leads pods" if time.monotonic() < deadline else "the node leads no pod")

    def _until(self, holds: Callable[[], bool], patience: float) -> None:
        began = time.monotonic()
        while not holds() and (now := time.monotonic()) < began + patience:
            calls = self._changing()
            if now - max([began, *(one.ended or now for one in calls)]) > QUIET:
                return
            time.sleep(0.01)

    def _changing(self) -> list[Call]:
        """List this scenario's calls that change something."""
        return [one for one in self.proxy.ledger.calls[self.calls_before :] if one.method in CHANGING]

    # --- the observer

    @contextlib.contextmanager
    def observed(self) -> Iterator[None]:
        """Look at containerd itself again and again while the block runs (I1)."""
        over = threading.Event()
        observer = threading.Thread(target=self._observe, args=(over,), daemon=True)
        observer.start()
        try:
            yield
        finally:
            over.set()
            observer.join()

    def _observe(self, over: threading.Event) -> None:
        with grpc.insecure_channel(self.containerd.endpoint) as channel:
            runtime = api_pb2_grpc.RuntimeServiceStub(channel)
            while not over.wait(LOOK_EVERY):
                with contextlib.suppress(grpc.RpcError):
                    self._look(runtime)

    def _look(self, runtime: api_pb2_grpc.RuntimeServiceStub) -> None:
        ready = cri.PodSandboxFilter(state=cri.PodSandboxStateValue(state=cri.PodSandboxState.SANDBOX_READY))
        asked = cri.ListPodSandboxRequest(filter=ready)
        uids = [one.metadata.uid for one in runtime.ListPodSandbox(asked, timeout=ANSWERS_WITHIN).items]
        running = cri.ContainerFilter(state=cri.ContainerStateValue(state=cri.ContainerState.CONTAINER_RUNNING))
        found = runtime.ListContainers(cri.ListContainersRequest(filter=running), timeout=ANSWERS_WITHIN).containers
        # containerd lists a container whose shim was killed for some seconds after it has answered that it is stopped
        stopped = {call.about["container"] for call in self.proxy.ledger.of("StopContainer")}
        names = [f"{one.labels[POD_UID]}/{one.metadata.name}" for one in found if one.id not in stopped]
        twice = {one for one in uids if uids.count(one) > 1} | {one for one in names if names.count(one) > 1}
        for one in twice:
            self.seen.append(f"I1: {one} lives twice")
            self.note(f"{one} lives twice")


def gateway_pid(temporal: TemporalServer) -> int:
    """Return the pid of Temporal's gateway, whose end is the server's, too."""
    return int(json.loads(temporal.process.pid_file.read_text())["pid"])


def start_again(temporal: TemporalServer) -> None:
    """Start a Temporal whose server was killed, once its gateway has ended, too, and its ports are free."""
    with contextlib.suppress(FileNotFoundError, ValueError):  # there is none
        gateway = gateway_pid(temporal)
        wait_until(lambda: has_ended(gateway), "Temporal's gateway has ended")
    why = ""

    def starts() -> bool:
        nonlocal why
        try:
            temporal.start()
        except TemporalFailed as error:
            why = str(error)
            return False
        return True

    wait_until(starts, lambda: f"Temporal starts: {why}", looks=(0.5, 0.5))


def has_ended(pid: int) -> bool:
    """Say whether a process is gone, or a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
