"""Does a pod get a user namespace only if it asks for one and the runtime supports it, and else the kubelet's error?"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.exceptions import ApplicationError

from activities.clients.runtime import RuntimeClient
from activities.cri_config.container_config import ContainerInputs, container_config
from activities.cri_config.security_context import NODES_USERS, SecurityInputs, container_security
from activities.images.image_pulls import ImagePulls
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups
from activities.node_services import NodeServices
from activities.sandbox.isolation import UserNamespacesUnsupportedError, isolation_of, refuse_unsupported
from activities.sandbox.runtime_classes import NO_CLASS
from activities.settings.activity_settings import ActivitySettings
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.resources.resources import ContainerResources
from proto.temporal.pod import PodKey

KEY = PodKey("prod", "web", "uid-1")
ABLE = cri.RuntimeHandlerFeatures(user_namespaces=True)


@dataclass
class Runtime:
    """A runtime with these features."""

    can: cri.StatusResponse
    asked: list[str] = field(default_factory=list)

    async def abilities(self) -> cri.StatusResponse:
        """Return them."""
        self.asked.append("abilities")
        return self.can


def node(root: Path, *handlers: cri.RuntimeHandler, handler: str = "", strict: bool = False) -> NodeServices:
    """Return a node whose runtime has these handlers."""
    features = cri.RuntimeFeatures(supplemental_groups_policy=strict)
    runtime = Runtime(cri.StatusResponse(runtime_handlers=handlers, features=features))
    (root / "pods" / KEY.uid).mkdir(parents=True)
    return NodeServices(
        settings=ActivitySettings(root_dir=root, pod_logs_dir=root, runtime_handler=handler),
        runtime=cast("RuntimeClient", runtime),
        cgroups=Cgroups("", hierarchies=Hierarchies(v2=None, v1={})),
        pulls=ImagePulls(),
    )


def asked(services: NodeServices) -> list[str]:
    """Return the calls to the runtime."""
    return cast("Runtime", services.runtime).asked


@pytest.mark.parametrize(
    "spec", [pytest.param({}, id="unsaid"), pytest.param({"hostUsers": True}, id="the-node's-users-asked-for")]
)
async def test_an_ordinary_pod_costs_nothing(tmp_path: Path, spec: dict[str, Any]) -> None:
    """The runtime is not asked, and nothing is written."""
    services = node(tmp_path)
    isolation = await isolation_of(services, KEY, {"spec": spec})
    assert (isolation.user_namespace, isolation.handler) == (NODES_USERS, "")
    assert asked(services) == []
    assert not list((tmp_path / "pods" / KEY.uid).iterdir())


async def test_users_of_its_own(tmp_path: Path) -> None:
    """The same range each time; mounts are mapped, so that the pod's root owns them as the node's root does."""
    services = node(tmp_path, cri.RuntimeHandler(features=ABLE))
    isolation = await isolation_of(services, KEY, {"spec": {"hostUsers": False}})
    (mapping,) = isolation.user_namespace.uids
    assert (mapping.length, isolation.user_namespace.mode) == (65536, cri.NamespaceMode.POD)
    assert isolation == await isolation_of(services, KEY, {"spec": {"hostUsers": False}})
    container = {"name": "main", "image": "busybox"}
    security = SecurityInputs(key=KEY, pod={}, container=container, user_namespace=isolation.user_namespace)
    built = container_config(
        ContainerInputs(
            key=KEY,
            pod={},
            container=container,
            attempt=0,
            image_ref="",
            resources=ContainerResources(0, 0, 0, 0, 0),
            security=container_security(security),
            environment={},
            mounts=[cri.Mount(container_path="/data", host_path="/data")],
        )
    )
    assert built.linux.security_context.namespace_options.userns_options == isolation.user_namespace
    (mount,) = built.mounts
    assert (list(mount.uidMappings), list(mount.gidMappings)) == ([mapping], [mapping])


@pytest.mark.parametrize(
    ("handlers", "handler", "why"),
    [
        pytest.param([], "", "runtime does not support user namespaces", id="a-runtime-that-says-nothing"),
        pytest.param([cri.RuntimeHandler()], "", "runtime does not support user namespaces", id="it-can't"),
        pytest.param(
            [cri.RuntimeHandler(features=ABLE), cri.RuntimeHandler(name="kata")],
            "kata",
            'RuntimeClass handler "kata" does not support user namespaces',
            id="this-handler-can't",
        ),
        pytest.param(
            [cri.RuntimeHandler(features=ABLE)],
            "kata",
            'RuntimeClass handler "kata" does not support user namespaces: the handler "kata" is not known',
            id="nobody-knows-this-handler",
        ),
    ],
)
async def test_where_there_are_none(tmp_path: Path, handlers: list[cri.RuntimeHandler], handler: str, why: str) -> None:
    """No IDs are allocated then."""
    services = node(tmp_path, *handlers, handler=handler)
    with pytest.raises(UserNamespacesUnsupportedError) as raised:
        await isolation_of(services, KEY, {"spec": {"hostUsers": False}})
    assert str(raised.value) == f"can't set `spec.hostUsers: false`, {why}"
    assert not list((tmp_path / "pods" / KEY.uid).iterdir())


@pytest.mark.parametrize(
    ("policy", "can", "refused"),
    [
        pytest.param(None, False, False, id="unsaid"),
        pytest.param("Merge", False, False, id="what-every-runtime-does"),
        pytest.param("Strict", True, False, id="a-runtime-that-knows-it"),
        pytest.param("Strict", False, True, id="a-runtime-that-does-not"),
    ],
)
async def test_strict_groups(tmp_path: Path, policy: str | None, can: bool, refused: bool) -> None:
    """The pod is refused if groups from the image would be added."""
    services = node(tmp_path, strict=can)
    pod = {"spec": {"securityContext": {"supplementalGroupsPolicy": policy}}}
    if not refused:
        await refuse_unsupported(services, pod, NO_CLASS)
        assert bool(asked(services)) is (policy == "Strict")
        return
    with pytest.raises(ApplicationError) as raised:
        await refuse_unsupported(services, pod, NO_CLASS)
    assert raised.value.type == "SupplementalGroupsPolicyNotSupported"
    assert raised.value.message == "SupplementalGroupsPolicy=Strict is not supported in this node"
