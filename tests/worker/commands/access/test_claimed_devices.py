"""Does `explain` say what a pod has by its ResourceClaims, from the files of a node?"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from proto.dra.claims import Claim, PreparedDevice
from proto.dra.device_health import UNHEALTHY, DeviceHealth
from proto.pod_snapshot import pod_path
from worker.commands.access.claimed_devices import claimed_devices
from workflows.decide.claims import checkpoint, health_state
from workflows.decide.claims.accounts import ClaimAccount
from workflows.decide.claims.health import Told

DEVICE = "device gpu-0 of pool p of driver d.test"
HAS = f"container c has {DEVICE}: allocated for ResourceClaim gpus"
LACKS = "container c has no device of ResourceClaim gpus yet: it is not prepared for the pod"
ILL = f"container c: {DEVICE}: not healthy: too hot"
ACCOUNT = ClaimAccount(
    claim=Claim("default", "gpus", "uid-gpus"),
    pods=frozenset({"web"}),
    drivers={"d.test": (PreparedDevice(pool="p", device="gpu-0"),)},
)
POD: dict[str, Any] = {
    "metadata": {"namespace": "default", "name": "web", "uid": "web"},
    "spec": {
        "resourceClaims": [{"name": "g", "resourceClaimName": "gpus"}],
        "containers": [{"name": "c", "resources": {"claims": [{"name": "g"}]}}],
    },
}
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def root_dir(tmp_path: Path) -> Path:
    """Have a node whose claim is prepared, and whose driver has long called its device unhealthy."""
    (tmp_path / checkpoint.STATE_FILE).write_text(checkpoint.written_checkpoint({ACCOUNT.key: ACCOUNT}))
    health = {"d.test": {("p", "gpu-0"): Told(DeviceHealth(UNHEALTHY, "too hot"), 0.0)}}
    (tmp_path / health_state.STATE_FILE).write_text(health_state.written_health(health, LONG_AGO, 0.0))
    path = pod_path(tmp_path, "web")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(POD))
    return tmp_path


@pytest.mark.parametrize(
    ("lacks_claims", "over", "said"),
    [
        pytest.param(False, (), (HAS, ILL), id="prepared"),
        pytest.param(True, (), (LACKS,), id="known-for-the-pod-and-not-prepared"),
        pytest.param(False, ("c",), (), id="over"),
    ],
)
def test_what_a_pod_has(root_dir: Path, lacks_claims: bool, over: tuple[str, ...], said: tuple[str, ...]) -> None:
    """The workflow knows whether its claims are prepared, and which containers are over."""
    assert claimed_devices(root_dir, "web", lacks_claims=lacks_claims, over=over) == said


def test_files_that_are_gone_or_damaged(root_dir: Path) -> None:
    """Nothing is said of what cannot be read."""
    (root_dir / health_state.STATE_FILE).write_bytes(b"\xff")
    assert claimed_devices(root_dir, "web", lacks_claims=False, over=()) == (HAS,)
    (root_dir / health_state.STATE_FILE).unlink()
    assert claimed_devices(root_dir, "web", lacks_claims=False, over=()) == (HAS,)
    (root_dir / checkpoint.STATE_FILE).unlink()
    assert claimed_devices(root_dir, "web", lacks_claims=False, over=()) == (LACKS,)
    (root_dir / checkpoint.STATE_FILE).write_text("{}")
    assert claimed_devices(root_dir, "web", lacks_claims=False, over=()) == ()
