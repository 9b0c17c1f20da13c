"""Files that are written as a whole, with their mode from the first byte on: certificates, their keys, the kubeconfig."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Put a file in its place; a crash leaves the old one or the new one. Raises OSError."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as target:
        target.write(content)
        target.flush()
        os.fsync(descriptor)
    beside.replace(path)
