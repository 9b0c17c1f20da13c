"""Which devices a pod of this node has by its ResourceClaims, for `tempolet explain`: by the files that the worker leaves below --root-dir."""

import json
from pathlib import Path

from proto.dra.pod_claims import uses_claims
from proto.pod_snapshot import pod_path
from workflows.decide.claims.checkpoint import STATE_FILE, read_checkpoint
from workflows.decide.claims.why import why_devices


def claimed_devices(root_dir: Path, uid: str) -> tuple[str, ...]:
    """Say which devices a pod's claims gave it, and why; nothing for a pod without claims, or if the files cannot be read."""
    try:
        pod = json.loads(pod_path(root_dir, uid).read_bytes())
        if not uses_claims(pod):
            return ()
        file = root_dir / STATE_FILE
        return why_devices(read_checkpoint(file.read_text()) if file.exists() else {}, pod)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()
