"""Does a patch contain the differences and nothing else?"""

from typing import Any

import pytest

from worker.status.patch import status_patch


def ready(status: str, **more: str) -> dict[str, Any]:
    """Return a condition."""
    return {"type": "Ready", "status": status, **more}


SCHEDULED = {"type": "PodScheduled", "status": "True"}


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param({"phase": "Running"}, {"phase": "Running"}, None, id="nothing-for-what-is-so"),
        pytest.param({"a": {}}, {}, None, id="nothing-for-what-is-empty"),
        pytest.param({"phase": "Pending"}, {"phase": "Running"}, {"phase": "Running"}, id="the-field-that-changed"),
        pytest.param({"reason": "Evicted"}, {}, {"reason": None}, id="null-for-what-goes"),
        pytest.param(
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
            {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}},
            {"resources": {"limits": {"cpu": "2"}}},
            id="inside-an-object",
        ),
        pytest.param(
            {"containerStatuses": [{"name": "a"}, {"name": "b", "ready": False}]},
            {"containerStatuses": [{"name": "a"}, {"name": "b", "ready": True}]},
            {"containerStatuses": [{"name": "a"}, {"name": "b", "ready": True}]},
            id="containers-as-a-whole",
        ),
        pytest.param(
            {"podIPs": [{"ip": "10.0.0.1"}]},
            {"podIPs": [{"ip": "10.0.0.2"}]},
            {"podIPs": [{"$patch": "replace"}, {"ip": "10.0.0.2"}]},
            id="an-address-is-replaced-and-not-added",
        ),
        pytest.param(
            {"conditions": [SCHEDULED, ready("True")]},
            {"conditions": [SCHEDULED, ready("False", reason="PodFailed")]},
            {
                "$setElementOrder/conditions": [{"type": "PodScheduled"}, {"type": "Ready"}],
                "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed"}],
            },
            id="one-condition-among-others",
        ),
        pytest.param(
            {"conditions": [ready("False", reason="PodFailed")]},
            {"conditions": [ready("True")]},
            {
                "$setElementOrder/conditions": [{"type": "Ready"}],
                "conditions": [{"type": "Ready", "status": "True", "reason": None}],
            },
            id="a-condition-loses-its-reason",
        ),
        pytest.param(
            {"conditions": [SCHEDULED, ready("True")]},
            {"conditions": [SCHEDULED]},
            {
                "$setElementOrder/conditions": [{"type": "PodScheduled"}],
                "conditions": [{"$patch": "delete", "type": "Ready"}],
            },
            id="a-condition-goes",
        ),
        pytest.param({"conditions": [SCHEDULED]}, {"conditions": [SCHEDULED]}, None, id="conditions-that-stay"),
    ],
)
def test_patch(old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any] | None) -> None:
    """Each row is one kind of change."""
    expected = None if patch is None else {"metadata": {"uid": "u"}, "status": patch}
    assert status_patch("u", old, new) == expected
