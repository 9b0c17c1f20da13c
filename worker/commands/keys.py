"""`tempolet keys`: which keys encrypt this node's payloads, where payloads are decoded, and adding a key.

The keys themselves are never printed.
"""

from worker.daemon.config import NodeConfig
from worker.temporal.keys import KeyFile, KeyRing, add_key, read_key_file, read_token_file


def show(config: NodeConfig, *, rotate: bool) -> None:
    """Print the key ids, oldest first, and the URL of the decode endpoint; `rotate` adds a key first."""
    path = config.payload_key_file
    print_ring(add_key(path) if rotate else read_key_file(path))
    if lack := KeyFile(path).lack:
        print(lack)
    print(f"file: {path}")
    if address := config.tempolet.codec.address:
        print(f"decode endpoint (the worker's): http://{address}/{read_token_file(config.codec_token_file)}")
    if socket := config.tempolet.codec.socket:
        print(f"decode socket (the worker's): {socket}")
    if rotate:
        print(
            "Restart worker and poller, in any order: they then encrypt with the new key. Keep the old keys as long as the "
            "histories; then write `<id> retired` in place of a line, and never remove it."
        )


def print_ring(ring: KeyRing) -> None:
    """Print the ids, one per line."""
    for key in ring.keys:
        print(f"{key.key_id}  {'encrypts and decrypts' if key is ring.newest else 'decrypts'}")
    for key_id in ring.retired:
        print(f"{key_id}  retired: what it encrypted is refused")
