"""`tempolet keys`: which keys seal this node's payloads, how to have payloads decoded, and a new key.

The keys themselves are never printed.
"""

from worker.daemon.config import NodeConfig
from worker.temporal.keys import KeyRing, add_key, read_key_file, read_token_file


def show(config: NodeConfig, *, rotate: bool) -> None:
    """Print the keys' ids, oldest first, and the decode endpoint's address; with `rotate`, after adding a key."""
    path = config.payload_key_file
    print_ring(add_key(path) if rotate else read_key_file(path))
    print(f"file: {path}")
    if address := config.tempolet.codec.address:
        print(f"decode endpoint (the worker's): http://{address}/{read_token_file(config.codec_token_file)}")
    if rotate:
        print(
            "Restart worker and poller, in any order: they seal with the new key then. Keep the old ones as long as histories."
        )


def print_ring(ring: KeyRing) -> None:
    """Print the ids, one a line."""
    for key in ring.keys:
        print(f"{key.key_id}  {'seals and opens' if key is ring.newest else 'opens'}")
