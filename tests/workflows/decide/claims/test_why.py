"""Does `tempolet explain` say which devices a claim gave each container of a pod, why these, and which are not healthy?"""

from dataclasses import replace
from typing import Any

import pytest

from proto.dra.claims import Claim, PreparedDevice
from proto.dra.device_health import HEALTHY, UNHEALTHY, DeviceHealth, DeviceKey
from proto.messages import MAX_MESSAGE
from proto.temporal.activities.claims import ClaimedDevice, PreparedResources
from workflows.decide.claims.accounts import MOST_TOLD, ClaimAccount, prepared_resources
from workflows.decide.claims.why import MOST_SENTENCES, unhealthy_claimed, why_devices

GPU = PreparedDevice(pool="node-1", device="gpu-0", requests=("big",))
OTHER = PreparedDevice(pool="node-1", device="gpu-1", requests=("small",), share_id="s1")
ACCOUNT = ClaimAccount(
    claim=Claim("default", "gpus", "uid-gpus"), pods=frozenset({"web"}), drivers={"d.test": (GPU, OTHER)}
)
BIG, SMALL = ("device gpu-0 of pool node-1 of driver d.test", "device gpu-1 of pool node-1 of driver d.test (share s1)")
HOT = DeviceHealth(UNHEALTHY, "too hot")


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
            f"container c has {BIG}, {SMALL}: allocated for ResourceClaim gpus",
            id="a-whole-claim",
        ),
        pytest.param(
            ACCOUNT,
            pod({"name": "g", "request": "big"}),
            f"container c has {BIG}: allocated for request big of ResourceClaim gpus",
            id="a-request",
        ),
        pytest.param(
            replace(ACCOUNT, pods=frozenset({"web", "a"})),
            pod({"name": "g", "request": "big"}),
            f"container c has {BIG}: allocated for request big of ResourceClaim gpus, "
            "which 1 other pod of this node uses, too",
            id="a-shared-claim",
        ),
        pytest.param(
            replace(ACCOUNT, drivers={"d.test": ()}),
            pod({"name": "g"}),
            "container c has no device of ResourceClaim gpus: none is prepared by d.test",
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


def test_containers_that_are_over_have_none() -> None:
    """What an init container had serves others."""
    of = pod({"name": "g", "request": "big"})
    first = {"name": "pre", "resources": {"claims": [{"name": "g"}]}}
    of["spec"]["initContainers"] = [first]
    of_pre, of_c = why_devices({ACCOUNT.key: ACCOUNT}, of)
    assert of_pre == f"container pre has {BIG}, {SMALL}: allocated for ResourceClaim gpus"
    assert why_devices({ACCOUNT.key: ACCOUNT}, of, ("pre",)) == (of_c,)
    assert unhealthy_claimed({ACCOUNT.key: ACCOUNT}, of, lambda *_: HOT, ("pre",)) == (
        f"container c: {BIG}: not healthy: too hot",
    )


@pytest.mark.parametrize(
    ("account", "asked", "health", "said"),
    [
        pytest.param(ACCOUNT, {"name": "g"}, {}, (), id="nothing-is-known"),
        pytest.param(ACCOUNT, {"name": "g"}, {"gpu-0": DeviceHealth(HEALTHY, "cool")}, (), id="healthy"),
        pytest.param(
            ACCOUNT, {"name": "g"}, {"gpu-0": HOT}, (f"container c: {BIG}: not healthy: too hot",), id="one-is-not"
        ),
        pytest.param(
            ACCOUNT,
            {"name": "g"},
            {"gpu-0": HOT, "gpu-1": DeviceHealth(UNHEALTHY)},
            (f"container c: {BIG}: not healthy: too hot", f"container c: {SMALL}: not healthy"),
            id="both-one-without-a-message",
        ),
        pytest.param(ACCOUNT, {"name": "g", "request": "small"}, {"gpu-0": HOT}, (), id="of-another-request"),
        pytest.param(replace(ACCOUNT, pods=frozenset({"a"})), {"name": "g"}, {"gpu-0": HOT}, (), id="of-another-pod"),
    ],
)
def test_which_of_them_are_not_healthy(
    account: ClaimAccount, asked: dict[str, str], health: dict[str, DeviceHealth], said: tuple[str, ...]
) -> None:
    """In the words of their driver."""

    def health_of(driver: str, key: DeviceKey) -> DeviceHealth:
        assert (driver, key[0]) == ("d.test", "node-1")
        return health.get(key[1], DeviceHealth())

    assert unhealthy_claimed({account.key: account}, pod(asked), health_of) == said
    unknown = pod(asked, claim={"resourceClaimTemplateName": "t"})
    assert unhealthy_claimed({account.key: account}, unknown, health_of) == ()


def test_a_story_has_an_end() -> None:
    """Though a driver names many devices at length."""
    devices = tuple(PreparedDevice(pool="p" * 500, device=f"{one}" * 100) for one in range(900))
    account = replace(ACCOUNT, drivers={"d.test": devices})
    of = pod(*({"name": "g", "request": str(one)} for one in range(100)))
    said = why_devices({account.key: account}, of)
    assert len(said) == MOST_SENTENCES + 1
    assert said[-1] == f"and {100 - MOST_SENTENCES} more uses of claims"
    assert all(len(one.encode()) <= MAX_MESSAGE for one in said)
    ill = unhealthy_claimed({account.key: account}, of, lambda *_: DeviceHealth(UNHEALTHY, "x" * 9_000))
    assert (len(ill), ill[-1]) == (MOST_SENTENCES + 1, f"and {900 - MOST_SENTENCES} more devices that are not healthy")
    assert all(len(one.encode()) <= MAX_MESSAGE for one in ill)
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
