"""The pressure that a node is under: the state of its eviction manager between two rounds.

Fields are only ever added, each with a default.
"""

from dataclasses import dataclass, field
from datetime import datetime

from proto.temporal.eviction.thresholds import Signal, Threshold


@dataclass(frozen=True, slots=True)
class MetThreshold:
    """A threshold that is met, or was met and is not yet resolved."""

    threshold: Threshold
    since: datetime
    held: bool = False
    """Its grace period is over: its minimum reclaim must be available, too, before it is resolved."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """What a round leaves for the next one."""

    met: tuple[MetThreshold, ...] = ()
    last_observed: dict[str, datetime] = field(default_factory=dict)
    """When each node condition was last observed."""
    conditions: tuple[str, ...] = ()
    """The conditions that the node shows."""
    measured_at: dict[Signal, datetime] = field(default_factory=dict)
    """The time of each signal's last observation, where it has one."""
