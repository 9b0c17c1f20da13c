"""Is a pod run by the handler that its RuntimeClass names, and does it count what that takes?

The rows are runtimeclass_manager_test.go's and the admission plugin's (plugin/pkg/admission/runtimeclass admission_test.go).
"""

from pathlib import Path
from typing import Any

import pytest

from activities.node_services import NodeServices
from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, StoredObject
from activities.sandbox.isolation import isolation_of, isolation_of_new_pod
from activities.sandbox.runtime_classes import RuntimeClassRefused
from proto.cri.v1 import api_pb2 as cri
from tests.activities.sandbox.test_isolation import ABLE, KEY, node

FIXED = {"cpu": "250m", "memory": "120Mi"}
CLASSES: dict[str, Any] = {
    "plain": {"handler": "runc"},
    "heavy": {"handler": "kata", "overhead": {"podFixed": FIXED}},
    "light": {"handler": "kata", "overhead": {}},
    "empty": {},
    "odd": {"handler": "kata", "overhead": {"podFixed": {"cpu": "much"}}},
    "list": {"handler": "kata", "overhead": ["cpu"]},
}


class Classes:
    """A node that keeps these RuntimeClasses."""

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> StoredObject:
        """Find one."""
        assert (kind, namespace) == (ObjectKind.RUNTIME_CLASSES, "")
        if name == "foreign":
            raise ObjectRefused("it is somebody else's file")
        if name not in CLASSES:
            raise ObjectMissing(kind, name)
        return StoredObject("1", CLASSES[name])


def with_classes(root: Path, *handlers: cri.RuntimeHandler, handler: str = "") -> NodeServices:
    """Return a node that keeps them."""
    made = node(root, *handlers, handler=handler)
    return NodeServices(
        settings=made.settings, runtime=made.runtime, cgroups=made.cgroups, pulls=made.pulls, objects=Classes()
    )


@pytest.mark.parametrize(
    ("name", "handler"),
    [
        pytest.param(None, "the-nodes", id="none"),
        pytest.param("", "the-nodes", id="an-empty-one"),
        pytest.param("plain", "runc", id="one"),
        pytest.param("heavy", "kata", id="one-with-an-overhead"),
    ],
)
async def test_the_handler(tmp_path: Path, name: str | None, handler: str) -> None:
    """The node's own where a pod names no class."""
    services = with_classes(tmp_path, handler="the-nodes")
    isolation = await isolation_of(services, KEY, {"spec": {"runtimeClassName": name}})
    assert isolation.handler == handler


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("lost", 'runtimeclass.node.k8s.io "lost" not found', id="not-there"),
        pytest.param("foreign", "failed to lookup RuntimeClass foreign: it is somebody else's file", id="not-taken"),
        pytest.param("empty", "failed to lookup RuntimeClass empty: handler: Required value", id="no-handler"),
        pytest.param("odd", "failed to lookup RuntimeClass odd: overhead.podFixed[cpu]: ", id="no-quantity"),
        pytest.param("list", "failed to lookup RuntimeClass list: overhead.podFixed: must be", id="no-mapping"),
    ],
)
async def test_what_is_no_class(tmp_path: Path, name: str, why: str) -> None:
    """In the kubelet's words."""
    with pytest.raises(RuntimeClassRefused) as raised:
        await isolation_of(with_classes(tmp_path), KEY, {"spec": {"runtimeClassName": name}})
    assert str(raised.value).startswith(why)


@pytest.mark.parametrize(
    ("spec", "counts", "refused"),
    [
        pytest.param({}, None, "", id="nothing-asked"),
        pytest.param({"runtimeClassName": "heavy"}, FIXED, "", id="left-open"),
        pytest.param({"runtimeClassName": "heavy", "overhead": FIXED}, FIXED, "", id="the-class's"),
        pytest.param(
            {"runtimeClassName": "heavy", "overhead": {"cpu": "0.25", "memory": "120Mi"}},
            {"cpu": "0.25", "memory": "120Mi"},
            "",
            id="the-class's-otherwise-written",
        ),
        pytest.param({"runtimeClassName": "light"}, None, "", id="a-class-that-takes-nothing"),
        pytest.param(
            {"runtimeClassName": "heavy", "overhead": {"cpu": "1"}},
            {"cpu": "1"},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
            id="another",
        ),
        pytest.param(
            {"runtimeClassName": "plain", "overhead": FIXED},
            FIXED,
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            id="of-a-class-that-has-none",
        ),
    ],
)
async def test_the_overhead(tmp_path: Path, spec: dict[str, Any], counts: dict[str, str] | None, refused: str) -> None:
    """Of a pod that says another one no sandbox is made; what was made so before is not judged again."""
    services = with_classes(tmp_path)
    if refused:
        with pytest.raises(RuntimeClassRefused) as raised:
            await isolation_of_new_pod(services, KEY, {"spec": spec})
        assert str(raised.value) == refused
    else:
        await isolation_of_new_pod(services, KEY, {"spec": spec})
    pod = {"spec": spec}
    assert (await isolation_of(services, KEY, pod)).whole(pod)["spec"].get("overhead") == counts


async def test_users_of_its_own_are_the_handlers_to_give(tmp_path: Path) -> None:
    """Not those of the node's own."""
    able, unable = cri.RuntimeHandler(name="runc", features=ABLE), cri.RuntimeHandler(name="kata")
    services = with_classes(tmp_path, able, unable)
    own = await isolation_of(services, KEY, {"spec": {"runtimeClassName": "plain", "hostUsers": False}})
    assert own.user_namespace.uids
    with pytest.raises(ValueError, match='RuntimeClass handler "kata" does not support user namespaces'):
        await isolation_of(services, KEY, {"spec": {"runtimeClassName": "light", "hostUsers": False}})
