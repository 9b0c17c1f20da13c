"""In what a pod is kept, where that is not the same for every pod and has to be asked for.

Asked before a sandbox is made and before a container is; an ordinary pod costs nothing here.
"""

from collections.abc import Mapping
from typing import Any

from activities.errors import failed
from activities.node_services import NodeServices
from proto.kubernetes.admission import GROUPS_POLICY_NOT_SUPPORTED


async def refuse_unsupported(services: NodeServices, pod: Mapping[str, Any]) -> None:
    """Refuse what the runtime can't do; raises SupplementalGroupsPolicyNotSupported, and CriError.

    A runtime that does not know the policy would let the image's own groups in, which the pod wants to be kept from.
    """
    context = (pod.get("spec") or {}).get("securityContext") or {}
    if context.get("supplementalGroupsPolicy") == "Strict":
        abilities = await services.runtime.abilities()
        if not abilities.features.supplemental_groups_policy:
            message = "SupplementalGroupsPolicy=Strict is not supported in this node"
            raise failed(GROUPS_POLICY_NOT_SUPPORTED, message)
