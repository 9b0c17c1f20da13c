"""How a pod is isolated, where it asks for more than the default: runtime handler, user namespace.

Read before a sandbox or a container is created; costs nothing for an ordinary pod.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from activities.cri_config.security_context import NODES_USERS
from activities.execution.errors import non_retryable_failure
from activities.sandbox.runtime_classes import (
    NO_CLASS,
    RuntimeClass,
    refuse_conflicting_overhead,
    runtime_class_of,
    with_overhead,
)
from activities.sandbox.services import SandboxServices
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.admission import GROUPS_POLICY_NOT_SUPPORTED
from proto.temporal.pod import PodKey


class UserNamespacesUnsupportedError(ValueError):
    """The pod asks for a user namespace, which the runtime does not support; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """How a pod is isolated."""

    handler: str = ""
    """Of the runtime; empty: the default handler."""
    user_namespace: cri.UserNamespace = field(default_factory=lambda: NODES_USERS)
    runtime_class: RuntimeClass = NO_CLASS

    def whole(self, pod: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the pod with the overhead of its RuntimeClass."""
        return with_overhead(pod, self.runtime_class)


ORDINARY: Final = Isolation()


async def isolation_of(services: SandboxServices, key: PodKey, pod: Mapping[str, Any]) -> Isolation:
    """Return a pod's isolation, and allocate its user IDs if it asks for a user namespace.

    Raises RuntimeClassRefused, UserNamespacesUnsupportedError, NoRangeError, OSError, CriError.
    """
    return await _isolation(services, key, pod, await runtime_class_of(services.objects, pod))


async def isolation_of_new_pod(services: SandboxServices, key: PodKey, pod: Mapping[str, Any]) -> Isolation:
    """Do the same for a pod without a sandbox, after refusing what the node does not support.

    Also raises SupplementalGroupsPolicyNotSupported.
    """
    named = await runtime_class_of(services.objects, pod)
    await refuse_unsupported(services, pod, named)
    return await _isolation(services, key, pod, named)


async def refuse_unsupported(services: SandboxServices, pod: Mapping[str, Any], named: RuntimeClass) -> None:
    """Raise SupplementalGroupsPolicyNotSupported, RuntimeClassRefused or CriError for what the node does not support.

    A runtime that does not know the policy would add the groups from the image, which the pod wants to prevent.
    """
    refuse_conflicting_overhead(pod, named)
    context = (pod.get("spec") or {}).get("securityContext") or {}
    if context.get("supplementalGroupsPolicy") == "Strict":
        abilities = await services.runtime.abilities()
        if not abilities.features.supplemental_groups_policy:
            message = "SupplementalGroupsPolicy=Strict is not supported in this node"
            raise non_retryable_failure(GROUPS_POLICY_NOT_SUPPORTED, message)


async def _isolation(services: SandboxServices, key: PodKey, pod: Mapping[str, Any], named: RuntimeClass) -> Isolation:
    handler = named.handler or services.settings.runtime_handler
    if (pod.get("spec") or {}).get("hostUsers") is not False:
        return Isolation(handler, runtime_class=named)
    await _require_user_namespaces(services, handler)
    directory = services.paths(key).directory
    return Isolation(handler, await asyncio.to_thread(services.user_namespaces.of_pod, directory), named)


async def _require_user_namespaces(services: SandboxServices, handler: str) -> None:
    """Ask the runtime whether this handler supports user namespaces (HandlerSupportsUserNamespaces)."""
    handlers = (await services.runtime.abilities()).runtime_handlers
    own = next((one for one in handlers if one.name == handler), None)
    if own is not None and own.features.user_namespaces:
        return
    subject = f'RuntimeClass handler "{handler}"' if handler else "runtime"
    unknown = f': the handler "{handler}" is not known' if handlers and own is None else ""
    raise UserNamespacesUnsupportedError(
        f"can't set `spec.hostUsers: false`, {subject} does not support user namespaces{unknown}"
    )
