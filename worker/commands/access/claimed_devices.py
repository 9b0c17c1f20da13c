"""Which devices a pod of this node has by its ResourceClaims, for `tempolet explain`: by the files that the worker leaves below --root-dir."""

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from proto.dra.pod_claims import uses_claims
from proto.pod_snapshot import pod_path
from workflows.decide.claims.accounts import Accounts
from workflows.decide.claims.checkpoint import STATE_FILE, read_checkpoint
from workflows.decide.claims.health import DriverHealth, current
from workflows.decide.claims.health_state import STATE_FILE as HEALTH_FILE
from workflows.decide.claims.health_state import read_health
from workflows.decide.claims.why import unhealthy_claimed, why_devices

_LARGEST: Final = 16 * 1024 * 1024
"""Bytes that are read of the devices' health."""
_AS_WRITTEN: Final = datetime.min.replace(tzinfo=UTC)
"""What the file says counts, however old: the worker takes out what counts no more."""


def claimed_devices(root_dir: Path, uid: str, *, lacks_claims: bool, over: Collection[str]) -> tuple[str, ...]:
    """Say which devices a pod's claims gave it, why, and which are not healthy; nothing for a pod without claims, or if the files cannot be read.

    `lacks_claims`: a claim that names the pod is not prepared for it; nothing is said of the containers that are over.
    """
    try:
        pod = json.loads(pod_path(root_dir, uid).read_bytes())
        if not uses_claims(pod):
            return ()
        accounts = {} if lacks_claims else _accounts(root_dir)
        return (*why_devices(accounts, pod, over), *_unhealthy(root_dir, accounts, pod, over))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()


def _accounts(root_dir: Path) -> Accounts:
    file = root_dir / STATE_FILE
    return read_checkpoint(file.read_text()) if file.exists() else {}


def _unhealthy(root_dir: Path, accounts: Accounts, pod: Mapping[str, Any], over: Collection[str]) -> tuple[str, ...]:
    drivers = _health(root_dir)
    return unhealthy_claimed(accounts, pod, lambda driver, key: current(drivers.get(driver, {}), key, 0.0), over)


def _health(root_dir: Path) -> dict[str, DriverHealth]:
    """Read the health of claims' devices; nothing if there is no file, or it is damaged."""
    try:
        with (root_dir / HEALTH_FILE).open("rb") as file:
            return read_health(file.read(_LARGEST).decode(), _AS_WRITTEN, 0.0)
    except (OSError, ValueError):
        return {}
