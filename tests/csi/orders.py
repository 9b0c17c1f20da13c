"""How a test controls the process of the CSI driver and sees its calls: two files in the driver's own folder.

The driver reads its orders at every call, and records every call before it carries it out: both survive its death.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Order:
    """How calls of one kind behave: what to do before the call, or instead of it."""

    times: int = 1_000_000
    """The number of calls this applies to; later ones behave normally."""
    code: str = ""
    """The gRPC status of the error."""
    details: str = ""
    until: str = ""
    """The call waits until this file exists."""
    die: bool = False
    """Carry the call out and exit before the answer."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The driver's capabilities and the like."""

    name: str = "dir.csi.tempolet.test"
    capabilities: tuple[str, ...] = ("STAGE_UNSTAGE_VOLUME",)
    versions: tuple[str, ...] = ("1.0.0",)
    kind: str = "CSIPlugin"
    node_id: str = "node-of-the-test"
    topology: dict[str, str] = field(default_factory=dict)


@dataclass
class DriverFolder:
    """The folder of one driver: its volumes, orders and calls."""

    path: Path
    orders: dict[str, Order] = field(default_factory=dict)

    def setup(self, setup: Setup) -> None:
        """Set up the driver before it is started."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "setup.json").write_text(json.dumps(asdict(setup)))

    def read_setup(self) -> Setup:
        """Read the driver's setup."""
        said = json.loads((self.path / "setup.json").read_text())
        return Setup(**said | {"capabilities": tuple(said["capabilities"]), "versions": tuple(said["versions"])})

    def order(self, call: str, order: Order | None) -> None:
        """Set the order for one kind of call, or remove it."""
        self.orders.pop(call, None)
        if order is not None:
            self.orders[call] = order
        written = self.path / "orders.new"
        written.write_text(json.dumps({name: asdict(one) for name, one in self.orders.items()}))
        written.replace(self.path / "orders.json")

    def order_for(self, call: str) -> Order:
        """Read the order for a call that has just been recorded."""
        try:
            orders = json.loads((self.path / "orders.json").read_text())
        except FileNotFoundError:
            return Order()
        order = Order(**orders.get(call, {}))
        return order if self.count(call) <= order.times else Order()

    def write_call(self, call: str, asked: dict[str, Any]) -> None:
        """Record a call."""
        with (self.path / "calls.jsonl").open("a") as calls:
            calls.write(json.dumps({"call": call} | asked) + "\n")

    def calls(self, *kinds: str) -> list[dict[str, Any]]:
        """Read the calls in order, all of them or those of these kinds."""
        try:
            lines = (
                (self.path / "calls.jsonl").read_text().rpartition("\n")[0].splitlines()
            )  # without a line that is still being written
        except FileNotFoundError:
            return []
        found = [json.loads(line) for line in lines]
        return [one for one in found if not kinds or one["call"] in kinds]

    def count(self, call: str) -> int:
        """Count the calls of a kind."""
        return len(self.calls(call))

    def forget_calls(self) -> None:
        """Reset the counts."""
        (self.path / "calls.jsonl").unlink(missing_ok=True)

    @property
    def condition(self) -> str:
        """What is wrong with the volumes, or ""."""
        file = self.path / "condition"
        return file.read_text() if file.exists() else ""

    @condition.setter
    def condition(self, wrong: str) -> None:
        (self.path / "condition").write_text(wrong)

    @property
    def most_volumes(self) -> int:
        """How many volumes the node can have."""
        file = self.path / "most-volumes"
        return int(file.read_text()) if file.exists() else 7

    @most_volumes.setter
    def most_volumes(self, count: int) -> None:
        (self.path / "most-volumes.new").write_text(str(count))
        (self.path / "most-volumes.new").replace(self.path / "most-volumes")

    def volume(self, handle: str) -> Path:
        """Return the folder behind a volume; a test writes its content there."""
        return self.path / "volumes" / handle.replace("/", "~")
