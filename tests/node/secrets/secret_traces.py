"""Where a secret of a node can be seen from outside: what the kernel shows, what goes to systemd, what histories say."""

import asyncio
import contextlib
import json
import os
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from temporalio.client import WorkflowHistory

from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import NAMESPACE
from tests.node.operating import tempolet
from tests.node.tempolet_node import TempoletNode
from worker.temporal.codec import PayloadCipher
from worker.temporal.decoded_history import decode_history
from worker.temporal.keys import KeyFile

US: Final = Path("/proc", str(os.getpid()))
SHOWN: Final = ("environ", "cmdline")
LOOKS_EVERY: Final = 0.1
LONGEST_WORD: Final = 65536
BASE64_GROUP: Final = 3


def shapes(secret: str) -> tuple[bytes, ...]:
    """Return a secret as it is, and what base64 makes of it wherever it stands in a longer text."""
    told = [secret.encode()]
    for before in range(BASE64_GROUP):
        coded = b64encode(b"\0" * before + secret.encode()).rstrip(b"=")
        told.append(coded[4 if before else 0 : -2])  # the groups at its ends depend on what stands beside it
    return tuple(told)


def told_by(node: TempoletNode, snapshot: PodSnapshot) -> str:
    """Return everything that anybody can read of a pod."""
    pod = f"{snapshot.namespace}/{snapshot.name}"
    told = [tempolet(node, "explain", pod, "-o", form)[1] for form in ("text", "json")]
    return "\n".join((exported(node, snapshot), json.dumps(snapshot.status), *told))


def exported(node: TempoletNode, snapshot: PodSnapshot) -> str:
    """Return the history in all forms in which it is exported: encrypted, decrypted, and as the command tells it."""
    history = asyncio.run(_history(node, snapshot))
    clear = decode_history(history, PayloadCipher(KeyFile(node.temporal_settings().key_file)), NAMESPACE)
    pod = f"{snapshot.namespace}/{snapshot.name}"
    told = [tempolet(node, "history", pod, "--uid", snapshot.uid, "-o", form)[1] for form in ("table", "wide", "json")]
    return "\n".join((encrypted(node, snapshot), clear.to_json(), *map(str, clear.events), *told))


def encrypted(node: TempoletNode, snapshot: PodSnapshot) -> str:
    """Return the history as whoever has no key exports it."""
    return asyncio.run(_history(node, snapshot)).to_json()


async def _history(node: TempoletNode, snapshot: PodSnapshot) -> WorkflowHistory:
    return await (await node.workflow(snapshot)).fetch_history()


@contextmanager
def as_services(folder: Path) -> Iterator[list[bytes]]:
    """Start processes meanwhile as systemd does; yields what they tell it, which `systemctl status` shows to everybody."""
    told: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening, pytest.MonkeyPatch.context() as patch:
        listening.bind(str(folder / "notify"))
        patch.setenv("NOTIFY_SOCKET", str(folder / "notify"))

        def listen() -> None:
            while word := listening.recv(LONGEST_WORD):
                told.append(word)

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield told
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
                last.sendto(b"", str(folder / "notify"))
            thread.join()


@contextmanager
def watched_processes(folder: Path, needles: Sequence[bytes]) -> Iterator[set[str]]:
    """Look at the node's processes again and again; yields where a needle was seen.

    They are those that this process has started, with their children, and the shims of the containerd in `folder`.
    Processes of containers have PID namespaces of their own: there a secret belongs.
    """
    found: set[str] = set()
    ended = threading.Event()

    def watch() -> None:
        while True:
            for process in _processes(os.fsencode(folder)):
                found.update(_shown(process, needles))
            if ended.wait(LOOKS_EVERY):
                return

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            yield found
        finally:
            ended.set()
    watching.result()


def _processes(folder: bytes) -> Iterator[Path]:
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parents[process] = Path("/proc", (process / "stat").read_text().rpartition(")")[2].split()[1])
            if folder in (process / "cmdline").read_bytes():
                parents[process] = US
    for process in parents:
        above: Path | None = process
        while above not in {None, US}:
            above = parents.get(above) if above else None
        if above == US:
            yield process


def _shown(process: Path, needles: Sequence[bytes]) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        namespaces = [(one / "ns" / "pid").readlink() for one in (US, process)]
        if len(set(namespaces)) > 1:
            return
        name = (process / "comm").read_text().strip()
        for what in SHOWN:
            content = (process / what).read_bytes()
            if any(needle in content for needle in needles):
                yield f"{name}: {what}"
