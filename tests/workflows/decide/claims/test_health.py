"""What health does a container's status show of the devices of its claims, for how long does a report count, and does a restart lose it?"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.dra.claims import Claim, PreparedDevice
from proto.dra.device_health import HEALTHY, UNHEALTHY, UNKNOWN, DeviceHealth, DeviceKey
from workflows.decide.claims.accounts import ClaimAccount
from workflows.decide.claims.health import (
    NOT_KNOWN,
    DriverHealth,
    Told,
    current,
    reported,
    resources_status,
    without,
)
from workflows.decide.claims.health_state import read_health, written_health

A, B, C = ("p", "a"), ("p", "b"), ("p", "c")
WELL, ILL = DeviceHealth(HEALTHY), DeviceHealth(UNHEALTHY, "too hot", timeout=60)
NOW: Final = datetime(2026, 11, 29, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "after", "shown"),
    [
        pytest.param(WELL, 30, WELL, id="for-30-seconds-by-default"),
        pytest.param(WELL, 30.1, NOT_KNOWN, id="and-no-longer"),
        pytest.param(ILL, 60, ILL, id="for-as-long-as-the-plugin-says"),
        pytest.param(ILL, 60.1, NOT_KNOWN, id="then-its-message-is-gone-too"),
    ],
)
def test_how_long_a_report_counts(said: DeviceHealth, after: float, shown: DeviceHealth) -> None:
    """Since it came: what the plugin says about the time does not matter."""
    known = reported({}, {A: said}, at=100, source="plugin", most=9)
    assert current(known, A, 100 + after) == shown
    assert current(known, B, 100) == NOT_KNOWN


@pytest.mark.parametrize(
    ("devices", "at", "most", "left"),
    [
        pytest.param({A: WELL}, 110, 9, {A: 110, B: 100}, id="what-is-not-named-counts-on"),
        pytest.param({A: WELL}, 161, 9, {A: 161}, id="until-its-timeout"),
        pytest.param({}, 110, 9, {A: 100, B: 100}, id="an-empty-report"),
        pytest.param({C: WELL}, 110, 1, {C: 110}, id="the-newest-if-there-are-too-many"),
    ],
)
def test_what_a_report_changes(
    devices: Mapping[DeviceKey, DeviceHealth], at: float, most: int, left: dict[DeviceKey, float]
) -> None:
    """Nothing is kept for ever."""
    before = reported({}, {A: WELL, B: ILL}, at=100, source="plugin", most=9)
    after = reported(before, devices, at=at, source="plugin", most=most)
    assert {key: one.at for key, one in after.items()} == left


def test_the_end_of_a_stream_takes_what_it_said() -> None:
    """Not what another plugin of the driver has said since."""
    before = reported({}, {A: WELL, B: WELL}, at=100, source="old", most=9)
    both = reported(before, {B: ILL}, at=101, source="new", most=9)
    assert {key: one.said for key, one in without(both, "old").items()} == {B: ILL}
    assert without(without(both, "old"), "new") == {}


KEYS = st.tuples(st.sampled_from("pq"), st.sampled_from("abcdef"))
HEALTH = st.builds(
    DeviceHealth, st.sampled_from([HEALTHY, UNHEALTHY, UNKNOWN]), st.text(max_size=5), st.integers(1, 90)
)


@given(reports=st.lists(st.tuples(st.dictionaries(KEYS, HEALTH, max_size=4), st.integers(0, 40)), max_size=12))
def test_any_reports(reports: list[tuple[dict[DeviceKey, DeviceHealth], int]]) -> None:
    """What is shown is what was said last and counts, and never more is kept than allowed."""
    known: DriverHealth = {}
    said: dict[DeviceKey, Told] = {}
    now = 0.0
    for devices, later in reports:
        now += later
        known = reported(known, devices, at=now, source=None, most=12)
        said |= {key: Told(one, now) for key, one in devices.items()}
        assert len(known) <= 12
        for key, told in said.items():
            assert current(known, key, now) == (told.said if now <= told.until else NOT_KNOWN)


ACCOUNT = ClaimAccount(
    claim=Claim("default", "gpu", "uid-gpu"),
    drivers={
        "z.test": (PreparedDevice(pool="p", device="a"),),
        "d.test": (
            PreparedDevice(pool="p", device="a", requests=("r1",), cdi_device_ids=("d.test/gpu=a", "d.test/all=1")),
            PreparedDevice(pool="p", device="b", requests=("r2",)),
            PreparedDevice(pool="p", device="c", requests=("r2",), cdi_device_ids=("d.test/gpu=a",)),
        ),
    },
)
CLAIMS = ({"name": "g", "resourceClaimName": "gpu"}, {"name": "t", "resourceClaimTemplateName": "t"})
SAID = {("d.test", A): WELL, ("d.test", B): ILL, ("d.test", C): ILL}
CDI_A, PLAIN_B = {"resourceID": "d.test/gpu=a", "health": HEALTHY}, {"resourceID": "d.test/p/b", "health": UNHEALTHY}
Z = {"resourceID": "z.test/p/a", "health": UNKNOWN}
HOT = {"message": "too hot"}


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        pytest.param([], {}, id="none"),
        pytest.param([{"name": "g"}], {"claim:g": [CDI_A, PLAIN_B | HOT, Z]}, id="a-whole-claim-each-id-once"),
        pytest.param([{"name": "g", "request": "r1"}], {"claim:g/r1": [CDI_A, Z]}, id="a-request"),
        pytest.param(
            [{"name": "g", "request": "r2/first"}],
            {"claim:g/r2/first": [PLAIN_B | HOT, CDI_A | {"health": UNHEALTHY} | HOT, Z]},
            id="a-subrequest",
        ),
        pytest.param(
            [{"name": "g", "request": "r1"}, {"name": "g"}, {"name": "g"}],
            {"claim:g/r1": [CDI_A, Z], "claim:g": [CDI_A, PLAIN_B | HOT, Z]},
            id="both-each-once",
        ),
        pytest.param([{"name": "t"}], {}, id="a-claim-that-is-not-made-yet"),
        pytest.param([{"name": "unknown"}], {}, id="a-claim-that-the-pod-lacks"),
    ],
)
def test_what_the_status_of_a_container_shows(
    asked: list[dict[str, str]], shown: dict[str, list[dict[str, str]]]
) -> None:
    """By the names that ValidatePodStatusUpdate asks for; without the gate there is no message."""
    containers = [{"name": "other"}, {"name": "c", "resources": {"claims": asked}}]
    pod: dict[str, Any] = {
        "metadata": {"namespace": "default", "name": "web", "uid": "u"},
        "spec": {"resourceClaims": list(CLAIMS), "containers": containers},
    }
    accounts = {ACCOUNT.key: ACCOUNT}

    def told(container: str, *, with_messages: bool = True) -> dict[str, list[dict[str, str]]]:
        entries = resources_status(
            accounts,
            pod,
            container,
            lambda driver, key: SAID.get((driver, key), NOT_KNOWN),
            with_messages=with_messages,
        )
        return {one["name"]: one["resources"] for one in entries}

    assert told("c") == shown
    silent = {name: [{**one, "message": None} for one in entries] for name, entries in shown.items()}
    assert {
        name: [{**one, "message": None} for one in entries] for name, entries in told("c", with_messages=False).items()
    } == silent
    assert "too hot" not in json.dumps(told("c", with_messages=False))
    assert told("other") == told("absent") == {}


def test_a_claim_that_is_not_prepared_shows_nothing() -> None:
    """Neither one that is unknown, nor one without devices."""
    pod: dict[str, Any] = {
        "metadata": {"namespace": "default", "name": "web", "uid": "u"},
        "spec": {
            "resourceClaims": [CLAIMS[0]],
            "containers": [{"name": "c", "resources": {"claims": [{"name": "g"}]}}],
        },
    }
    empty = ClaimAccount(claim=ACCOUNT.claim, drivers={"d.test": ()})
    for accounts in ({}, {empty.key: empty}):
        assert resources_status(accounts, pod, "c", lambda *_: WELL, with_messages=True) == []


KUBELETS = (
    '{"d.test":{"Devices":{"p/a":{"PoolName":"p","DeviceName":"a","Health":"Healthy","LastUpdated":"2026-11-29T09:59:50.123456789+02:00",'
    '"HealthCheckTimeout":30000000000,"Message":""},"p/b":{"PoolName":"p","DeviceName":"b","Health":"Unhealthy",'
    '"LastUpdated":"2026-11-29T07:59:10Z","HealthCheckTimeout":60000000000,"Message":"too hot"},"p/c":{"PoolName":"p","DeviceName":"c",'
    '"Health":"Healthy","LastUpdated":"2026-11-29T07:59:29Z","HealthCheckTimeout":0,"Message":""}}},"empty.test":{"Devices":null}}'
)
"""In the kubelet's form (healthinfo.go): json.Marshal of state.DevicesHealthMap."""


def test_the_kubelets_file_is_read() -> None:
    """With its zones and nanoseconds; what counts no more is left out."""
    found = read_health(KUBELETS, NOW, 1000.0)
    assert {key: one.said for key, one in found["d.test"].items()} == {A: WELL, B: ILL}
    assert found["d.test"][A].at == pytest.approx(990.123, abs=0.001)
    assert found["empty.test"] == {}


@given(
    st.dictionaries(st.sampled_from(["d.test", "e.test"]), st.dictionaries(KEYS, st.tuples(HEALTH, st.floats(0, 50))))
)
def test_what_is_written_is_read(drawn: dict[str, dict[DeviceKey, tuple[DeviceHealth, float]]]) -> None:
    """On another monotonic clock, as after a reboot; only what counts no more is lost."""
    drivers = {
        driver: {key: Told(said, 500.0 - age) for key, (said, age) in devices.items()}
        for driver, devices in drawn.items()
    }
    text = written_health(drivers, NOW, 500.0)
    found = read_health(text, NOW + timedelta(seconds=5), 25.0)
    for driver, devices in drawn.items():
        for key, (said, age) in devices.items():
            if abs(age + 5 - said.timeout) > 0.001:
                assert current(found[driver], key, 25.0) == (said if age + 5 < said.timeout else NOT_KNOWN)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("[]", id="a-list"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"d":{"Devices":{"x":{}}}}', id="a-device-without-a-name"),
        pytest.param(KUBELETS.replace("60000000000", "1e400"), id="for-ever"),
        pytest.param(KUBELETS[:200], id="half"),
    ],
)
def test_a_file_that_cannot_be_used(text: str) -> None:
    """It is an error; nothing worse happens."""
    with pytest.raises(ValueError, match="dra_health_state cannot be read"):
        read_health(text, NOW, 0.0)


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        pytest.param("2026-11-29T07:59:10Z", "tomorrow", {A: WELL}, id="no-time"),
        pytest.param("2026-11-29T07:59:10Z", "2036-11-29T07:59:10Z", {A: WELL, B: ILL}, id="a-time-to-come"),
        pytest.param("60000000000", "-1", {A: WELL}, id="a-negative-timeout"),
        pytest.param(
            '"Unhealthy"', '"Splendid"', {A: WELL, B: DeviceHealth(UNKNOWN, "too hot", 60)}, id="a-new-health"
        ),
    ],
)
def test_a_device_that_is_odd_in_the_file(old: str, new: str, left: dict[DeviceKey, DeviceHealth]) -> None:
    """The others count."""
    found = read_health(KUBELETS.replace(old, new), NOW, 1000.0)
    assert {key: one.said for key, one in found["d.test"].items()} == left
