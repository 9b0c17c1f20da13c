"""Is a Node patched with the smallest patch, and not at all if nothing changed?"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.node.object.patch import changed, node_patch

Json = dict[str, Any]


def node(**status: Any) -> Json:
    """Return a Node."""
    return {"metadata": {"name": "n1", "uid": "u"}, "status": status}


def ready(heartbeat: str = "t1", **other: str) -> Json:
    """Return a condition."""
    return {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat, **other}


ADDRESS = {"type": "InternalIP", "address": "1.1.1.1"}


@pytest.mark.parametrize(
    ("old", "new", "differs", "status"),
    [
        pytest.param(node(), node(), False, None, id="the-same"),
        pytest.param(node(images=[]), node(), False, None, id="empty-is-absent"),
        pytest.param(node(), node(nodeInfo={"kubeProxyVersion": ""}), False, None, id="absent-is-empty"),
        pytest.param(
            node(capacity={"memory": "1Gi"}), node(capacity={"memory": "1024Mi"}), False,
            {"capacity": {"memory": "1024Mi"}}, id="the-same-amount-written-otherwise",
        ),
        pytest.param(
            node(capacity={"cpu": "2", "hugepages-2Mi": "0"}), node(capacity={"cpu": "4"}), True,
            {"capacity": {"cpu": "4", "hugepages-2Mi": None}}, id="a-map-names-what-changed-and-what-is-gone",
        ),
        pytest.param(
            node(conditions=[ready(), {"type": "A", "status": "True"}]),
            node(conditions=[ready("t2"), {"type": "A", "status": "True"}]), False,
            {"conditions": [{"type": "Ready", "lastHeartbeatTime": "t2"}]}, id="a-heartbeat-is-no-change",
        ),
        pytest.param(
            node(conditions=[ready()]), node(conditions=[ready(reason="r")]), True,
            {"conditions": [{"type": "Ready", "reason": "r"}]}, id="a-condition-by-its-type",
        ),
        pytest.param(
            node(conditions=[ready()]), node(conditions=[ready(), {"type": "B", "status": "True"}]), True,
            {"conditions": [{"type": "B", "status": "True"}]}, id="a-new-condition",
        ),
        pytest.param(
            node(conditions=[ready(), {"type": "B"}]), node(conditions=[{"type": "B"}, ready()]), False,
            None, id="the-order-of-conditions-means-nothing",
        ),
        pytest.param(node(), node(addresses=[ADDRESS]), True, {"addresses": [ADDRESS]}, id="first-addresses"),
        pytest.param(
            node(addresses=[{"type": "InternalIP", "address": "2.2.2.2"}]), node(addresses=[ADDRESS]), True,
            {"addresses": [ADDRESS, {"$patch": "replace"}]}, id="addresses-are-replaced-as-a-whole",
        ),
        pytest.param(
            node(images=[{"names": ["a"]}]), node(images=[{"names": ["b"]}]), True,
            {"images": [{"names": ["b"]}]}, id="other-lists-are-replaced",
        ),
    ],
)  # fmt: skip
def test_what_is_said(old: Json, new: Json, differs: bool, status: Json | None) -> None:
    """The UID is in each patch, so that it never applies to another object of this name."""
    assert changed(old, new) is differs
    assert node_patch(old, new) == {"metadata": {"uid": "u"}} | ({"status": status} if status else {})


def test_labels_and_annotations_are_said_too() -> None:
    """And nothing else of the metadata, whatever a plugin or a bug writes there: no owner (CVE-2025-5187), no finalizer."""
    old = {"metadata": {"uid": "u", "labels": {"a": "1", "b": "2"}, "annotations": {"c": "3"}, "resourceVersion": "7"}}
    new: Json = {"metadata": {"uid": "u", "labels": {"a": "1", "b": "9"}, "annotations": {}, "resourceVersion": "7"}}
    assert changed(old, new)
    assert node_patch(old, new) == {"metadata": {"uid": "u", "labels": {"b": "9"}, "annotations": {"c": None}}}
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "v"}
    new["metadata"] |= {"ownerReferences": [owner], "finalizers": ["a/b"]}
    assert node_patch(old, new) == {"metadata": {"uid": "u", "labels": {"b": "9"}, "annotations": {"c": None}}}


SMALL = st.sampled_from(["a", "b", "c"])
MAPS = st.dictionaries(SMALL, st.sampled_from(["1", "2"]), max_size=3)
CONDITIONS = st.dictionaries(SMALL, MAPS, max_size=3).map(
    lambda found: [{**one, "type": kind} for kind, one in found.items()]
)
STATUS = st.fixed_dictionaries(
    {},
    optional={"nodeInfo": MAPS, "capacity": MAPS, "images": st.lists(MAPS, max_size=2), "conditions": CONDITIONS},
)


@given(STATUS, STATUS)
def test_a_patch_leads_from_one_to_the_other(before: Json, after: Json) -> None:
    """Applied as by the API server; conditions of `before` are never removed."""
    known = {one["type"]: one for one in after.get("conditions", ())}
    kept = [one for one in before.get("conditions", ()) if one["type"] not in known]
    if kept or known:
        after = {**after, "conditions": [*kept, *known.values()]}
    old, new = node(**before), node(**{**before, **after})
    patched = merged(old["status"], node_patch(old, new).get("status", {}))
    assert not changed({**old, "status": patched}, new)


def merged(target: Json, patch: Json) -> Json:
    """Apply a strategic merge patch, as far as a Node's status needs it."""
    found = dict(target)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif key == "conditions":
            conditions = {one["type"]: one for one in found.get(key, ())}
            for one in value:
                conditions[one["type"]] = merged(conditions.get(one["type"], {}), one)
            found[key] = list(conditions.values())
        elif isinstance(value, dict):
            found[key] = merged(found.get(key, {}), value)
        else:
            found[key] = value
    return found
