"""The worker's cost of probing 110 pods: 330 loops of one second, a third each httpGet, tcpSocket and grpc.

Run as `python -m tests.bench.probe_loops [seconds]`. The server is a separate process, so only the CPU of the worker's loops is
measured.
"""

import asyncio
import contextlib
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any, Final

import grpc
import grpc.aio

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.probes.container_probes import initial_progress
from activities.probes.loop import ProbeLoop
from proto.temporal.activities.requests import ProbeContainer
from proto.temporal.pod import PodKey

PODS: Final = 110
SETTLE_SECONDS: Final = 3.0


async def serve() -> None:
    """Serve all three kinds on free ports, and print these."""

    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):  # closed before the call: the benchmark is over
            await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        writer.close()

    async def tcp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def check(_: bytes, __: Any) -> bytes:
        return b"\x08\x01"

    health = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(check)
    health.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
    )
    ports = [
        (await asyncio.start_server(http, "127.0.0.1", 0)).sockets[0].getsockname()[1],
        (await asyncio.start_server(tcp, "127.0.0.1", 0)).sockets[0].getsockname()[1],
        health.add_insecure_port("127.0.0.1:0"),
    ]
    await health.start()
    print(*ports, flush=True)
    await asyncio.Event().wait()


def request(number: int, ports: list[int]) -> ProbeContainer:
    """Build the request to probe a pod with one probe of each kind."""
    http, tcp, health = ports
    quick = {"periodSeconds": 1, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}
    container = {
        "name": "web",
        "readinessProbe": {"httpGet": {"port": http, "path": "/"}, **quick},
        "livenessProbe": {"tcpSocket": {"port": tcp}, **quick},
    }
    if number >= PODS:
        container = {"name": "web", "readinessProbe": {"grpc": {"port": health}, **quick}}
    return ProbeContainer(PodKey("bench", f"p{number}", str(number)), "web", str(number), container, "127.0.0.1")


async def measure(ports: list[int], seconds: float) -> None:
    """Run the loops and print their cost."""
    runtime = RuntimeClient("unix:///nowhere", StartLimit(4))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loops = []
    for number in range(2 * PODS):  # httpGet and tcpSocket in one container, grpc in another
        asked = request(number, ports)
        loops.append(ProbeLoop(asked, runtime, initial_progress(asked, ())))
        await asyncio.sleep(1 / (2 * PODS))
    await asyncio.sleep(SETTLE_SECONDS)
    begun, cpu = time.monotonic(), time.process_time()
    await asyncio.sleep(seconds)
    spent, lasted = time.process_time() - cpu, time.monotonic() - begun
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    failing = sum(found.verdict is not True for loop in loops for found in loop.progress.values())
    probes = sum(len(loop.progress) for loop in loops)
    print(
        f"{datetime.now(UTC):%F %T} {probes} probes at 1 s: {100 * spent / lasted:.1f} % of a core, "
        f"{memory:.1f} MB, {failing} not successful"
    )
    for loop in loops:
        loop.end()
    await asyncio.sleep(0)
    await runtime.close()


def main() -> None:
    """Start the server, measure, and stop it."""
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
        return
    seconds = float(sys.argv[1]) if sys.argv[1:] else 20.0
    with subprocess.Popen([sys.executable, "-m", "tests.bench.probe_loops", "serve"], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            ports = [int(one) for one in server.stdout.readline().split()]
            asyncio.run(measure(ports, seconds))
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
