"""Channels to Unix sockets on which this node's plugins serve, and the words of Go's gRPC for a failed call.

It loads no stubs: a node with plugins of one kind does not pay for the others.
"""

from typing import Final

import grpc

from proto.messages import shorten

UNDECODABLE: Final = "the answer cannot be decoded"
"""gRPC gives None for such an answer, and no error."""
CODES: Final = {code: code.name.title().replace("_", "") for code in grpc.StatusCode} | {
    grpc.StatusCode.CANCELLED: "Canceled",
    grpc.StatusCode.OK: "OK",
}


def unix_target(endpoint: str) -> str:
    """Return a socket's address for gRPC; an endpoint may be a bare path or have a scheme."""
    return endpoint if endpoint.startswith("unix:") else f"unix://{endpoint}"


def channel_options(most_bytes: int) -> tuple[tuple[str, str | int], ...]:
    """Return the options of a channel that takes messages of so many bytes."""
    return (
        ("grpc.enable_http_proxy", 0),
        ("grpc.default_authority", "localhost"),
        ("grpc.use_local_subchannel_pool", 1),  # otherwise a connection waits for the backoff of an earlier one
        ("grpc.max_receive_message_length", most_bytes),
    )


def in_words(code: grpc.StatusCode, details: str) -> str:
    """Describe a failed call as Go's gRPC does, which operators search for."""
    return f"rpc error: code = {CODES[code]} desc = {shorten(details)}"
