"""Which CDI devices a container gets, and whether the runtime would give it any.

containerd 1.7 ignores CDI devices unless `enable_cdi` is on, and would start the container without its device.
"""

import json
from collections.abc import Sequence
from typing import Any

from activities.clients.runtime import RuntimeClient
from activities.dra.services import CdiServices
from proto.temporal.activities.requests import StartContainer


class CdiOff(ValueError):
    """The runtime ignores CDI devices; says what to do."""


async def cdi_devices(services: CdiServices, given: Sequence[str], request: StartContainer) -> tuple[str, ...]:
    """Add those of a container's claims to those of device plugins; raises ValueError for a claim that is not known, CdiOff, and CriError."""
    found = (*given, *services.dynamic_resources.cdi_devices(request.sandbox_spec, request.container))
    if found:
        await require_cdi(services.runtime)
    return found


async def require_cdi(runtime: RuntimeClient) -> None:
    """Raise CdiOff if the runtime says that it ignores CDI devices, and CriError."""
    status = await runtime.abilities(verbose=True)
    if is_cdi_off(status.info.get("config", "")):
        raise CdiOff(
            "the container needs CDI devices, and CDI is switched off in containerd, which would start it without them: set "
            "enable_cdi = true and cdi_spec_dirs in its CRI plugin's configuration, and restart it"
        )


def is_cdi_off(config: str) -> bool:
    """Report whether a runtime's configuration, as it tells it, switches CDI off; one that tells nothing has it."""
    try:
        content: Any = json.loads(config)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("enableCDI") is False
