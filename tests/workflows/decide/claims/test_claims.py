"""Which claims does a pod use and may it, what do its containers get of them, and can a kubelet read our account of them?"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.dra.claims import Claim, ClaimAnswer, PreparedDevice
from proto.dra.pod_claims import (
    ClaimUnknown,
    ClaimUse,
    NamedClaim,
    claims_slice,
    container_claims,
    container_uses,
    named_claims,
    uses_claims,
    without_claimed,
)
from proto.json_object import UNREADABLE, WRONG_FIELD
from proto.kubernetes.resources.quantity import parse_quantity
from proto.temporal.pod import PodKey
from workflows.decide.claims.accounts import (
    ClaimAccount,
    ClaimNotPrepared,
    by_driver,
    cdi_devices,
    in_use,
    orphans,
    used_by,
    with_pod,
)
from workflows.decide.claims.allocated import AllocatedClaim, ClaimRefused, allocated
from workflows.decide.claims.answers import checked
from workflows.decide.claims.checkpoint import CheckpointError, read_checkpoint, written_checkpoint
from workflows.decide.node.hardware_needs import HardwarePolicies, hardware_slice, needs_hardware
from workflows.decide.node.node_admission import NodeFacts, reasons_against

POD = PodKey("default", "web", "uid-web")
CLAIM = Claim("default", "gpu", "uid-gpu")


def pod(
    *claims: dict[str, Any], statuses: list[dict[str, Any]] | None = None, extended: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Write a pod that uses claims."""
    return {
        "metadata": {"namespace": "default", "name": "web", "uid": "uid-web", "labels": {"a": "b"}},
        "spec": {"resourceClaims": list(claims), "containers": [{"name": "c"}]},
        "status": {"resourceClaimStatuses": statuses, "extendedResourceClaimStatus": extended, "phase": "Pending"},
    }


NAMED = {"name": "a", "resourceClaimName": "gpu"}
MADE = {"name": "b", "resourceClaimTemplateName": "t"}
EXTENDED = {
    "resourceClaimName": "ext",
    "requestMappings": [
        {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"},
        {"containerName": "other", "resourceName": "example.com/gpu", "requestName": "container-1-request-0"},
    ],
}


@pytest.mark.parametrize(
    ("of", "named"),
    [
        pytest.param(pod(), (), id="no-claim"),
        pytest.param(pod(NAMED), (NamedClaim("gpu"),), id="by-name"),
        pytest.param(
            pod(MADE, statuses=[{"name": "b", "resourceClaimName": "web-b-x"}]),
            (NamedClaim("web-b-x", is_made_for_pod=True),),
            id="from-a-template",
        ),
        pytest.param(pod(MADE, NAMED, statuses=[{"name": "b"}]), (NamedClaim("gpu"),), id="deliberately-not-made"),
        pytest.param(
            pod(NAMED, extended=EXTENDED), (NamedClaim("gpu"), NamedClaim("ext")), id="with-extended-resources"
        ),
    ],
)
def test_the_claims_of_a_pod(of: dict[str, Any], named: tuple[NamedClaim, ...]) -> None:
    """By name, by template, and the scheduler's own; a slice tells the same."""
    assert named_claims(of) == named
    assert named_claims(claims_slice(of)) == named
    assert uses_claims(of) == (bool(of["spec"]["resourceClaims"]) or bool(named))
    assert "labels" not in claims_slice(of)["metadata"]
    assert "phase" not in claims_slice(of)["status"]


@pytest.mark.parametrize(
    ("of", "why"),
    [
        pytest.param(pod(MADE), 'pod "default/web": ResourceClaim not created yet', id="not-made-yet"),
        pytest.param(
            pod({"name": "z"}),
            'pod "default/web", spec.resourceClaim "z": none of the supported fields are set',
            id="of-a-kind-of-the-future",
        ),
    ],
)
def test_a_claim_that_is_not_known(of: dict[str, Any], why: str) -> None:
    """The kubelet's words."""
    with pytest.raises(ClaimUnknown) as error:
        named_claims(of)
    assert str(error.value) == why


@pytest.mark.parametrize(
    ("resources", "uses"),
    [
        pytest.param({}, (), id="none"),
        pytest.param({"claims": [{"name": "a"}]}, (ClaimUse("gpu"),), id="a-whole-claim"),
        pytest.param(
            {"claims": [{"name": "a", "request": "r1"}, {"name": "a", "request": "r2"}]},
            (ClaimUse("gpu", "r1"), ClaimUse("gpu", "r2")),
            id="requests-of-it",
        ),
        pytest.param(
            {"requests": {"example.com/gpu": "1"}},
            (ClaimUse("ext", "container-0-request-0"),),
            id="an-extended-resource",
        ),
        pytest.param({"requests": {"example.com/gpu": "0"}}, (), id="none-of-an-extended-resource"),
        pytest.param({"requests": {"example.com/gpu": "nonsense"}}, (), id="no-amount"),
    ],
)
def test_what_a_container_uses(resources: dict[str, Any], uses: tuple[ClaimUse, ...]) -> None:
    """By its resources (manager.go GetResources)."""
    assert container_uses(pod(NAMED, extended=EXTENDED), {"name": "c", "resources": resources}) == uses


@pytest.mark.parametrize(
    ("container", "claims"),
    [
        pytest.param({"name": "x"}, (), id="none"),
        pytest.param({"name": "x", "resources": {"claims": [{"name": "a", "request": "r"}]}}, ("gpu",), id="a-request"),
        pytest.param(
            {"name": "x", "resources": {"claims": [{"name": "a", "request": "1"}, {"name": "a", "request": "2"}]}},
            ("gpu",),
            id="two-requests-of-one-claim",
        ),
        pytest.param({"name": "x", "resources": {"claims": [{"name": "z"}]}}, (), id="one-that-the-pod-lacks"),
        pytest.param({"name": "c"}, ("ext",), id="an-extended-resource"),
        pytest.param({"name": "c", "resources": {"claims": [{"name": "a"}]}}, ("gpu", "ext"), id="both"),
    ],
)
def test_the_claims_of_a_container(container: dict[str, Any], claims: tuple[str, ...]) -> None:
    """Each once, the scheduler's last (manager.go GetContainerClaimInfos)."""
    assert container_claims(pod(NAMED, extended=EXTENDED), container) == claims


def claim_object(owner: str = "", reserved: str = "uid-web", drivers: tuple[str, ...] | None = ("d",)) -> Any:
    """Write a ResourceClaim."""
    results = None if drivers is None else [{"driver": one, "pool": "p", "device": "x"} for one in drivers]
    owners = [{"uid": owner, "controller": True}] if owner else []
    return {
        "metadata": {"namespace": "default", "name": "gpu", "uid": "uid-gpu", "ownerReferences": owners},
        "status": {
            "reservedFor": [{"resource": "pods", "name": "web", "uid": reserved}],
            **({} if results is None else {"allocation": {"devices": {"results": results}}}),
        },
    }


@pytest.mark.parametrize(
    ("found", "named", "answer"),
    [
        pytest.param(
            claim_object(drivers=("b", "a", "b")), NamedClaim("gpu"), AllocatedClaim(CLAIM, ("a", "b")), id="allocated"
        ),
        pytest.param(claim_object(drivers=()), NamedClaim("gpu"), AllocatedClaim(CLAIM, ()), id="without-a-device"),
        pytest.param(
            claim_object(owner="uid-web"),
            NamedClaim("gpu", is_made_for_pod=True),
            AllocatedClaim(CLAIM, ("d",)),
            id="made-for-the-pod",
        ),
        pytest.param(
            claim_object(owner="uid-of-another"),
            NamedClaim("gpu", is_made_for_pod=True),
            "ResourceClaim default/gpu was not created for Pod default/web (Pod is not owner)",
            id="made-for-another",
        ),
        pytest.param(
            claim_object(reserved="uid-of-an-earlier-one"),
            NamedClaim("gpu"),
            "pod web (uid-web) is not allowed to use ResourceClaim gpu (uid-gpu)",
            id="reserved-for-another",
        ),
        pytest.param(
            claim_object(drivers=None), NamedClaim("gpu"), "ResourceClaim gpu: not allocated", id="not-allocated"
        ),
    ],
)
def test_whether_a_pod_may_use_a_claim(found: Any, named: NamedClaim, answer: AllocatedClaim | str) -> None:
    """Owner, reservation by uid, allocation."""
    if isinstance(answer, AllocatedClaim):
        assert allocated(POD, named, found) == answer
        return
    with pytest.raises(ClaimRefused) as refused:
        allocated(POD, named, found)
    assert str(refused.value) == answer


def account(*pods: str, name: str = "gpu", **drivers: tuple[PreparedDevice, ...]) -> ClaimAccount:
    """Have an account of a claim."""
    return ClaimAccount(claim=Claim("default", name, f"uid-{name}"), pods=frozenset(pods), drivers=drivers)


def test_a_shared_claim_is_counted() -> None:
    """Each pod that uses it; another claim of that name is refused."""
    one = with_pod({}, AllocatedClaim(CLAIM, ("d",)), "p1")
    both = with_pod({one.key: one}, AllocatedClaim(CLAIM, ("d",)), "p2")
    assert both.pods == {"p1", "p2"}
    assert both.drivers == {"d": ()}
    known = {both.key: both}
    assert used_by(known, "p2") == (both,)
    assert used_by(known, "p3") == ()
    assert orphans(known, {"p2", "p9"}) == ("p1",)
    with pytest.raises(
        ClaimRefused, match="old ResourceClaim with same name gpu and different UID uid-gpu still exists"
    ):
        with_pod(known, AllocatedClaim(Claim("default", "gpu", "uid-new"), ("d",)), "p3")


def test_each_driver_is_asked_once() -> None:
    """For all claims that have devices of it."""
    found = by_driver([account(name="a", d1=(), d2=()), account(name="b", d2=())])
    assert {driver: [one.name for one in claims] for driver, claims in found.items()} == {"d1": ["a"], "d2": ["a", "b"]}


def device(name: str, *requests: str) -> PreparedDevice:
    """Have a device with one CDI id."""
    return PreparedDevice(pool="p", device=name, requests=requests, cdi_device_ids=(f"v/c={name}",))


@pytest.mark.parametrize(
    ("use", "ids"),
    [
        pytest.param(ClaimUse("gpu"), ("v/c=x", "v/c=y", "v/c=z"), id="a-whole-claim"),
        pytest.param(ClaimUse("gpu", "r1"), ("v/c=x", "v/c=z"), id="a-request-and-what-is-for-all"),
        pytest.param(ClaimUse("gpu", "r3"), ("v/c=z",), id="a-request-without-a-device-of-its-own"),
    ],
)
def test_the_cdi_devices_of_a_container(use: ClaimUse, ids: tuple[str, ...]) -> None:
    """Each once."""
    one = account("p", d1=(device("x", "r1"), device("y", "r2")), d2=(device("z"),))
    assert cdi_devices({one.key: one}, "default", [use, use]) == ids
    with pytest.raises(ClaimNotPrepared, match="unable to get claim info for ResourceClaim gpu in namespace other"):
        cdi_devices({one.key: one}, "other", [use])


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        pytest.param({"uid-gpu": ClaimAnswer()}, "", id="as-asked"),
        pytest.param({}, "NodePrepareResources skipped 1 ResourceClaims", id="nothing"),
        pytest.param(
            {"uid-gpu": ClaimAnswer(error="no such device")},
            "NodePrepareResources failed for ResourceClaim gpu: no such device",
            id="an-error",
        ),
        pytest.param(
            {"uid-gpu": ClaimAnswer(), "uid-of-another": ClaimAnswer()},
            "NodePrepareResources returned result for unknown claim UID uid-of-another",
            id="a-lie",
        ),
    ],
)
def test_what_a_driver_may_answer(answers: dict[str, ClaimAnswer], why: str) -> None:
    """About every claim, and about no other."""
    if not why:
        assert checked("NodePrepareResources", [CLAIM], answers) == answers
        return
    with pytest.raises(ClaimRefused) as refused:
        checked("NodePrepareResources", [CLAIM], answers)
    assert str(refused.value) == why


def test_prepared_claims_are_counted() -> None:
    """For each driver, and under a name of its own for all."""
    one = ClaimAccount(claim=CLAIM, drivers={"d": ()}, is_prepared=True)
    other = account(name="b", d=())
    assert in_use({one.key: one, other.key: other}) == {"<any>": 1, "d": 1}


KUBELETS = (
    r'{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":'
    r"[{\"ClaimUID\":\"067798be-454e-4be4-9047-1aa06aea63f7\",\"ClaimName\":\"example\",\"Namespace\":\"default\","
    r"\"PodUIDs\":{\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":{\"test-driver.cdi.k8s.io\":{\"Devices\":"
    r"[{\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-1\",\"ShareID\":\"aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa\","
    r"\"RequestNames\":[\"test request\"],\"CDIDeviceIDs\":[\"example.com/example=cdi-example\"]}]}}}]}"
    r'","Checksum":736302156}'
)
"""As the kubelet 1.36.3 writes it (state/checkpointer_test.go)."""


def test_the_kubelets_file_is_read_and_written() -> None:
    """Byte by byte."""
    accounts = read_checkpoint(KUBELETS)
    [one] = accounts.values()
    assert one.drivers["test-driver.cdi.k8s.io"][0].share_id == "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
    assert not one.is_prepared
    assert written_checkpoint(accounts) == KUBELETS


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", "not JSON: it is empty", id="empty"),
        pytest.param("[]", "not a JSON object", id="a-list"),
        pytest.param(KUBELETS.replace("736302156", "736302157"), "", id="another-checksum"),
        pytest.param(KUBELETS.replace("dev-1", "dev-2"), "", id="changed"),
        pytest.param("[" * 100_000, UNREADABLE, id="deep"),
        pytest.param('{"Data":"{}","Checksum":' + "9" * 5_000 + "}", UNREADABLE, id="a-long-number"),
        pytest.param('{"Data":"{}","Checksum":1e999}', WRONG_FIELD, id="an-endless-number"),
        pytest.param('{"Data":"{}"}', WRONG_FIELD, id="no-checksum"),
        pytest.param('{"Data":"\\ud800","Checksum":1}', WRONG_FIELD, id="half-a-character"),
        pytest.param('{"Data":"[]","Checksum":223132457}', "not a JSON object", id="data-that-is-a-list"),
    ],
)
def test_a_file_that_cannot_be_used(text: str, why: str) -> None:
    """It is refused, as by the kubelet, in plain words."""
    with pytest.raises(CheckpointError) as refused:
        read_checkpoint(text)
    assert str(refused.value) == "checkpoint is corrupted" + (f": {why}" if why else "")


_TEXTS = st.text(max_size=8)
_DEVICES = st.builds(
    PreparedDevice,
    pool=_TEXTS,
    device=_TEXTS,
    share_id=st.none() | _TEXTS,
    requests=st.lists(_TEXTS, max_size=2).map(tuple),
    cdi_device_ids=st.lists(_TEXTS, max_size=2).map(tuple),
)
_ACCOUNTS = st.builds(
    ClaimAccount,
    claim=st.builds(Claim, _TEXTS, _TEXTS, _TEXTS),
    pods=st.frozensets(_TEXTS, max_size=3),
    drivers=st.dictionaries(_TEXTS, st.lists(_DEVICES, max_size=2).map(tuple), max_size=2),
)


@given(st.lists(_ACCOUNTS, max_size=4))
def test_what_is_written_is_read(found: list[ClaimAccount]) -> None:
    """Whatever drivers answered."""
    accounts = {one.key: one for one in found}
    text = written_checkpoint(accounts)
    assert read_checkpoint(text) == accounts
    assert json.loads(json.loads(text)["Data"])["kind"] == "DRACheckpoint"


def with_gpus(extended: dict[str, Any] | None) -> dict[str, Any]:
    """Write a pod of which two containers ask for the extended resource of EXTENDED, and for CPU."""
    made = pod(extended=extended)
    amounts = {"cpu": "1", "example.com/gpu": "1"}
    containers = [{"name": name, "resources": {"requests": amounts, "limits": amounts}} for name in ("c", "alone")]
    return {**made, "spec": {"containers": containers}}


def test_extended_resources_that_a_claim_serves_are_nobody_elses() -> None:
    """Only those of the containers that the scheduler has mapped; the rest of the pod stays."""
    left = without_claimed(with_gpus(EXTENDED))
    served, alone = left["spec"]["containers"]
    assert served["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    assert alone == with_gpus(None)["spec"]["containers"][1]
    assert without_claimed(with_gpus(None)) == with_gpus(None)


def test_a_node_needs_no_plugin_for_them() -> None:
    """Neither its ledger nor its allocatable resources count them."""
    has = {"pods": "10", "cpu": "4", "example.com/gpu": "1"}
    node = NodeFacts("n", allocatable={name: parse_quantity(amount) for name, amount in has.items()})
    policies = HardwarePolicies(is_device="example.com/gpu".__eq__)
    both = {
        **EXTENDED,
        "requestMappings": [
            *EXTENDED["requestMappings"],
            {"containerName": "alone", "resourceName": "example.com/gpu"},
        ],
    }
    assert reasons_against(with_gpus(None), node, [])
    assert needs_hardware(with_gpus(None), policies)
    assert not reasons_against(with_gpus(both), node, [])
    assert not needs_hardware(with_gpus(both), policies)
    assert "example.com/gpu" not in str(hardware_slice(with_gpus(both)))
