"""Has a volume a quota exactly when the kubelet gives it one, and of the kubelet's size?"""

from typing import Any

import pytest

from activities.volumes.quotas.rules import counts_by_quota, is_limited


@pytest.mark.parametrize(
    ("spec", "source", "expected"),
    [
        pytest.param({"hostUsers": False}, {}, True, id="a-user-namespace"),
        pytest.param({"hostUsers": True}, {}, False, id="the-nodes-users"),
        pytest.param({}, {}, False, id="which-is-the-default"),
        pytest.param({"hostUsers": None}, {}, False, id="null-is-the-default"),
        pytest.param({"hostUsers": False}, {"medium": "Memory"}, False, id="in-memory"),
        pytest.param({"hostUsers": False}, {"medium": ""}, True, id="an-empty-medium-is-the-disk"),
    ],
)
def test_which_volumes(spec: dict[str, Any], source: dict[str, Any], expected: bool) -> None:
    """As assignQuota and SupportsQuotas decide."""
    assert counts_by_quota({"spec": spec}, source) is expected


@pytest.mark.parametrize(
    ("size", "limits", "expected"),
    [
        pytest.param("", ("",), False, id="no-limit"),
        pytest.param("1Mi", ("",), True, id="sizeLimit"),
        pytest.param("0", ("",), False, id="a-sizeLimit-of-nought-is-none"),
        pytest.param("", ("", "2Mi"), True, id="the-limit-of-a-container"),
        pytest.param("", ("0",), False, id="a-limit-of-nought"),
        pytest.param("1Mi", ("2Mi",), True, id="both"),
    ],
)
def test_which_size(size: str, limits: tuple[str, ...], expected: bool) -> None:
    """As AddPodToVolume finds the size that is wanted."""
    containers = [
        {"name": f"c{number}", "resources": {"limits": {"ephemeral-storage": one}} if one else {}}
        for number, one in enumerate(limits)
    ]
    assert is_limited({"spec": {"containers": containers}}, {"sizeLimit": size} if size else {}) is expected
