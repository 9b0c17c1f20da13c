"""Does `tempolet explain` say which devices a claim gave each container of a pod, and why these?"""

from dataclasses import replace
from typing import Any

import pytest

from proto.dra.claims import Claim, PreparedDevice
from proto.messages import MAX_MESSAGE
from proto.temporal.activities.claims import ClaimedDevice, PreparedResources
from workflows.decide.claims.accounts import MOST_TOLD, ClaimAccount, prepared_resources
from workflows.decide.claims.why import MOST_SENTENCES, why_devices

GPU = PreparedDevice(pool="node-1", device="gpu-0", requests=("big",))
OTHER = PreparedDevice(pool="node-1", device="gpu-1", requests=("small",), share_id="s1")
ACCOUNT = ClaimAccount(
    claim=Claim("default", "gpus", "uid-gpus"), pods=frozenset({"web"}), drivers={"d.test": (GPU, OTHER)}
)
CHOSEN = "; the scheduler chose from the ResourceSlices of this node"


def pod(*asked: dict[str, str], claim: dict[str, str] | None = None) -> dict[str, Any]:
    """Write a pod whose container asks so; another container asks for nothing."""
    spec = {
        "resourceClaims": [{"name": "g", **(claim or {"resourceClaimName": "gpus"})}],
        "containers": [{"name": "c", "resources": {"claims": list(asked)}}, {"name": "other"}],
    }
    return {"metadata": {"namespace": "default", "name": "web", "uid": "web"}, "spec": spec}


@pytest.mark.parametrize(
    ("account", "of", "said"),
    [
        pytest.param(
            ACCOUNT,
            pod({"name": "g"}),
            "container c has device gpu-0 of pool node-1 of driver d.test, device gpu-1 of pool node-1 of driver d.test (share s1): "
            f"it asks for ResourceClaim gpus{CHOSEN}",
            id="a-whole-claim",
        ),
        pytest.param(
            ACCOUNT,
            pod({"name": "g", "request": "big"}),
            "container c has device gpu-0 of pool node-1 of driver d.test: it asks for request big of ResourceClaim gpus"
            + CHOSEN,
            id="a-request",
        ),
        pytest.param(
            replace(ACCOUNT, pods=frozenset({"web", "a"})),
            pod({"name": "g", "request": "big"}),
            "container c has device gpu-0 of pool node-1 of driver d.test: it asks for request big of ResourceClaim gpus, "
            f"which 1 other pod of this node uses, too{CHOSEN}",
            id="a-shared-claim",
        ),
        pytest.param(
            replace(ACCOUNT, drivers={"d.test": ()}),
            pod({"name": "g"}),
            f"container c has no device: d.test has prepared none: it asks for ResourceClaim gpus{CHOSEN}",
            id="nothing-is-prepared-yet",
        ),
        pytest.param(
            replace(ACCOUNT, pods=frozenset({"a"})),
            pod({"name": "g"}),
            "container c has no device of ResourceClaim gpus yet: it is not prepared for the pod",
            id="only-for-another-pod",
        ),
        pytest.param(
            ACCOUNT,
            pod({"name": "g"}, claim={"resourceClaimTemplateName": "t"}),
            'container c has no device of a claim yet: pod "default/web": ResourceClaim not created yet',
            id="a-claim-that-is-not-made-yet",
        ),
    ],
)
def test_which_devices_a_container_has(account: ClaimAccount, of: dict[str, Any], said: str) -> None:
    """One sentence for each claim or request that it asks for."""
    assert why_devices({account.key: account}, of) == (said,)


def test_a_story_has_an_end() -> None:
    """Though a driver names many devices at length."""
    devices = tuple(PreparedDevice(pool="p" * 500, device=f"{one}" * 100) for one in range(900))
    account = replace(ACCOUNT, drivers={"d.test": devices})
    of = pod(*({"name": "g", "request": str(one)} for one in range(100)))
    said = why_devices({account.key: account}, of)
    assert len(said) == MOST_SENTENCES + 1
    assert said[-1] == f"and {100 - MOST_SENTENCES} more uses of claims"
    assert all(len(one.encode()) <= MAX_MESSAGE for one in said)
    told = prepared_resources([account])
    assert (len(told.devices), told.more) == (MOST_TOLD, 900 - MOST_TOLD)
    assert max(len(one.pool + one.device) for one in told.devices) <= 2 * 253


def test_what_a_history_records_of_prepared_claims() -> None:
    """Each device with the requests that it is for."""
    assert prepared_resources([ACCOUNT]) == PreparedResources(
        (
            ClaimedDevice("gpus", "d.test", "node-1", "gpu-0", ("big",)),
            ClaimedDevice("gpus", "d.test", "node-1", "gpu-1", ("small",)),
        )
    )
    assert prepared_resources([]) == PreparedResources()
