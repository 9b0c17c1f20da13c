"""Where a scenario plays: a node between a CRI proxy and Temporal, what it does to them, and the timeline of that."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import grpc

from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc
from tests.chaos.node.cri_proxy import CHANGING, CallFault, CriProxy
from tests.chaos.node.ledger import POD_UID
from tests.node.tempolet_node import TempoletNode
from worker.standalone.containerd import Containerd
from worker.standalone.machine.leftovers import shims_of
from worker.standalone.temporal_server import TemporalServer

PHASES: Final = ("starting", "running", "deleting")
LOOK_EVERY: Final = 0.3
ANSWERS_WITHIN: Final = 5.0


@dataclass
class Scene:
    """One scenario's node; from one thread, except `note` and `kill`."""

    node: TempoletNode
    proxy: CriProxy
    rng: Random
    away_after: float
    phase: str
    """What the pods do when the fault strikes: one of PHASES."""
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
        """Wait until so many more calls have begun that change something, or for a while if they are fewer."""
        before = self._changing()
        deadline = time.monotonic() + patience
        while self._changing() < before + number and time.monotonic() < deadline:
            time.sleep(0.01)

    def _changing(self) -> int:
        return sum(one.method in CHANGING for one in self.proxy.ledger.calls)

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
        names = [f"{one.labels[POD_UID]}/{one.metadata.name}" for one in found]
        twice = {one for one in uids if uids.count(one) > 1} | {one for one in names if names.count(one) > 1}
        for one in twice:
            self.seen.append(f"I1: {one} lives twice")
            self.note(f"{one} lives twice")


def gateway_pid(temporal: TemporalServer) -> int:
    """Return the pid of Temporal's gateway, whose end is the server's, too."""
    return int(json.loads(temporal.process.pid_file.read_text())["pid"])


def has_ended(pid: int) -> bool:
    """Say whether a process is gone, or a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
