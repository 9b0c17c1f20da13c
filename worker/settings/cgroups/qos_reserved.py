"""qosReserved: how much of their memory requests pods keep from those of a lower QoS class, behind the alpha gate QOSReserved.

The rules and their words are the kubelet's (cm/container_manager.go ParseQOSReserved, which parses the key with the gate off, too).
`worker/host/cgroups/tier_limits.py` carries it out.
"""

import re
from collections.abc import Iterator
from typing import Final

from worker.settings.kubelet.configuration import KubeletConfiguration
from worker.settings.kubelet.feature_gates import QOS_RESERVED_GATE, FeatureGates

KEY: Final = "qosReserved"
_MEMORY: Final = "memory"
_SIGN: Final = "%"
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
"""What Go's strconv.ParseInt takes for decimal."""


def qos_reserved(kubelet: KubeletConfiguration, gates: FeatureGates) -> int | None:
    """Return the percentage of memory requests that is reserved; None: the tiers of the QoS classes have no limit."""
    given = kubelet[KEY] or {}
    return _percentage(given[_MEMORY]) if _MEMORY in given and gates.enabled(QOS_RESERVED_GATE) else None


def qos_reserved_breaches(kubelet: KubeletConfiguration) -> Iterator[str]:
    """List resources that cannot be reserved, and what is no percentage."""
    for name, text in sorted((kubelet[KEY] or {}).items()):
        if name != _MEMORY:
            yield f'{KEY} (--qos-reserved): cannot reserve "{name}" resource'
            continue
        try:
            _percentage(text)
        except ValueError as error:
            yield f'{KEY} (--qos-reserved): failed to parse percentage "{text}" for "{name}" resource: {error}'


def qos_reserved_warnings(kubelet: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    """Say that the key has no effect without its gate, where the kubelet says nothing."""
    if kubelet[KEY] and not gates.enabled(QOS_RESERVED_GATE):
        yield f"{KEY}: has no effect without the feature gate {QOS_RESERVED_GATE}, which is off"


def _percentage(text: str) -> int:
    """Parse a percentage; raises ValueError with the kubelet's words."""
    if not text.endswith(_SIGN):
        raise ValueError(f"percentage expected, got '{text}'")
    number = text.rstrip(_SIGN)
    if not _NUMBER.fullmatch(number):
        raise ValueError(f"invalid number in percentage '{text}'")
    if not 0 <= (found := int(number)) <= 100:
        raise ValueError("percentage must be between 0 and 100")
    return found
