"""gRPC servers of the worker and the node process."""

import asyncio

import grpc.aio


async def serve_until_cancelled(server: grpc.aio.Server) -> None:
    """Start a server that has its ports, and serve until cancelled; it has stopped at the return. Raises what ends it before.

    Its `wait_for_termination` is not awaited directly. Cancelling that cancels the future which `stop` awaits too, and `stop` would
    return before the server has stopped. The library would then remove its socket some time later, by its path, which begins with
    the number of a file descriptor that can be another folder's by then.
    """
    try:
        await server.start()
        await asyncio.shield(server.wait_for_termination())
    finally:
        await server.stop(None)
