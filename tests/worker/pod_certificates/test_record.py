"""Does the record of a certificate go through the kubelet's states, with its words and times?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities.objects.pod_certificates import PodCertificate, PodCertificateRefused
from worker.pod_certificates.record import Asked, Fresh, Record, refusal_event
from worker.pod_certificates.requests import Refused

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ASKED = Record(Asked("req-1", b"new key", NOW + 10 * MINUTE))
FRESH = Record(fresh=Fresh(PodCertificate(b"old key", b"old"), NOW + 60 * MINUTE, NOW + 120 * MINUTE))
RENEWED = replace(FRESH, asked=ASKED.asked)
DENIED = Record(refused=Refused("Denied", "NoWay", 'not "you"'))
FAILED = Record(refused=Refused("Failed", "Broken", "oh"))


def answered(kind: str) -> dict[str, Any]:
    """Build an answer."""
    times = {"beginRefreshAt": "2026-01-01T13:00:00Z", "notAfter": "2026-01-01T14:00:00Z"}
    return {"status": {"conditions": [{"type": kind, "reason": "R", "message": "m"}], "certificateChain": "", **times}}


@pytest.mark.parametrize(
    ("record", "request_", "after", "expected"),
    [
        pytest.param(Record(), None, 0, Record(), id="without-a-request"),
        pytest.param(ASKED, {"status": {}}, 5, ASKED, id="waiting"),
        pytest.param(ASKED, None, 5, ASKED, id="not-seen-yet"),
        pytest.param(ASKED, None, 11, Record(), id="deleted"),
        pytest.param(RENEWED, None, 11, FRESH, id="a-renewal-that-was-deleted"),
        pytest.param(ASKED, answered("Denied"), 0, Record(refused=Refused("Denied", "R", "m")), id="denied"),
        pytest.param(RENEWED, answered("Failed"), 0, Record(refused=Refused("Failed", "R", "m")), id="renewal-failed"),
        pytest.param(
            RENEWED,
            answered("Issued"),
            0,
            Record(fresh=Fresh(PodCertificate(b"new key", b""), NOW + 62 * MINUTE, NOW + 120 * MINUTE)),
            id="issued-with-jitter",
        ),
    ],
)
def test_an_answer_moves_it_on(record: Record, request_: dict[str, Any] | None, after: int, expected: Record) -> None:
    """Or leaves it waiting."""
    assert record.read(request_, NOW + after * MINUTE, 2 * MINUTE) == expected


@pytest.mark.parametrize(
    ("record", "after", "needed", "state", "events"),
    [
        pytest.param(Record(), 0, True, "not_yet_issued", [], id="new"),
        pytest.param(ASKED, 0, False, "not_yet_issued", [], id="asked"),
        pytest.param(FRESH, 59, False, "fresh", [], id="fresh"),
        pytest.param(FRESH, 60, True, "fresh", [], id="due"),
        pytest.param(RENEWED, 65, False, "fresh", [], id="asked-again"),
        pytest.param(FRESH, 71, True, "overdue_for_refresh", ["CertificateOverdueForRefresh"], id="overdue"),
        pytest.param(
            RENEWED,
            121,
            False,
            "expired",
            ["CertificateOverdueForRefresh", "CertificateExpired"],
            id="expired",
        ),
        pytest.param(DENIED, 1000, False, "denied", [], id="denied"),
        pytest.param(FAILED, 1000, False, "failed", [], id="failed"),
    ],
)
def test_what_comes_next_goes_by_its_age(
    record: Record, after: int, needed: bool, state: str, events: list[str]
) -> None:
    """When to ask, what metrics show, which events are due."""
    now = NOW + after * MINUTE
    assert (record.needs_request(now), record.state(now)) == (needed, state)
    assert [reason for reason, _ in record.events(now)] == events


@pytest.mark.parametrize(
    ("record", "words"),
    [
        pytest.param(Record(), "credential bundle is not issued yet", id="new"),
        pytest.param(ASKED, "credential bundle is not issued yet", id="asked"),
        pytest.param(
            DENIED,
            'PodCertificateRequest was permanently denied: reason="NoWay" message="not \\"you\\""',
            id="denied",
        ),
        pytest.param(FAILED, 'PodCertificateRequest was permanently failed: reason="Broken" message="oh"', id="failed"),
    ],
)
def test_a_mount_without_a_certificate_says_why(record: Record, words: str) -> None:
    """In the kubelet's words."""
    with pytest.raises(PodCertificateRefused) as refused:
        record.certificate()
    assert str(refused.value) == words


def test_an_older_certificate_is_used_until_the_new_one_is_there() -> None:
    """Also an expired one."""
    assert RENEWED.certificate().key == b"old key"


def test_events_of_refusals_are_the_kubelets() -> None:
    """With the name of the request."""
    denied, failed = DENIED.refused, FAILED.refused
    assert denied
    assert failed
    assert refusal_event("shop", "req-1", denied) == (
        'PodCertificateRequest shop/req-1 was denied, reason="NoWay", message="not \\"you\\""'
    )
    assert (
        refusal_event("shop", "req-1", failed)
        == 'PodCertificateRequest shop/req-1 failed, reason="Broken", message="oh"'
    )


def test_the_key_is_never_shown() -> None:
    """In logs and tracebacks."""
    assert "key'" not in repr(RENEWED)
    assert "new key" not in repr(RENEWED)
