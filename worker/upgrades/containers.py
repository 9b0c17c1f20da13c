"""The containers that run before and after an upgrade: none may be stopped by it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from proto.cri.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from worker.standalone.cri_client import CriClient

STOPPED: Final = frozenset({128 + 9, 128 + 15})
"""Exit codes of a container that somebody has stopped."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container that ran before."""

    name: str
    """Words for people."""
    pid: int
    """0: the runtime does not tell."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What became of the containers."""

    unchanged: int
    ended: tuple[str, ...] = ()
    """Those that have ended by themselves, with their exit codes."""
    stopped: tuple[str, ...] = ()
    """Those that somebody has stopped, or whose process is another one."""


def compare(before: Mapping[str, Container], after: Mapping[str, tuple[int, int | None]]) -> Compared:
    """Compare by id; `after`: the pid now, and the exit code of one that does not run. One that is absent was removed."""
    unchanged, ended, stopped = 0, list[str](), list[str]()
    for container_id, one in before.items():
        pid, code = after.get(container_id, (0, None))
        if container_id not in after:
            ended.append(f"{one.name} (removed)")
        elif code is None and pid == one.pid:
            unchanged += 1
        elif code is None or code in STOPPED:
            stopped.append(f"{one.name} ({'another process' if code is None else f'exit {code}'})")
        else:
            ended.append(f"{one.name} (exit {code})")
    return Compared(unchanged, tuple(ended), tuple(stopped))


class RunningContainers:
    """The containers of the node's pods, read from its runtime."""

    def __init__(self, socket: Path, pod_uids: Collection[str]) -> None:
        self._socket, self._pods = socket, frozenset(pod_uids)

    def now(self) -> dict[str, Container]:
        """Return those that run, by id; raises RpcError."""
        with CriClient(self._socket) as runtime:
            found = [one for one in runtime.running_containers() if one.labels.get(POD_UID) in self._pods]
            return {one.id: Container(_name(one.labels), runtime.container(one.id)[0]) for one in found}

    def since(self, before: Mapping[str, Container]) -> Compared:
        """Compare those that run now with those before; raises RpcError."""
        after: dict[str, tuple[int, int | None]] = {}
        with CriClient(self._socket) as runtime:
            for container_id in before:
                try:
                    after[container_id] = runtime.container(container_id)
                except grpc.RpcError as error:
                    if not isinstance(error, grpc.Call) or error.code() is not grpc.StatusCode.NOT_FOUND:
                        raise
        return compare(before, after)


def _name(labels: Mapping[str, str]) -> str:
    return f"{labels.get(POD_NAMESPACE)}/{labels.get(POD_NAME)} {labels.get(CONTAINER_NAME)}"
