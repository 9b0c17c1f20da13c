"""What a test tells the CSI driver's process, and what that tells the test: two files in the driver's own folder.

The driver reads its orders at every call, and writes down every call before it carries it out: both outlive its death.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Order:
    """What to do at one kind of call instead of what it asks for, or before."""

    times: int = 1_000_000
    """How many calls this is for; later ones are carried out."""
    code: str = ""
    """A gRPC status to fail with."""
    details: str = ""
    until: str = ""
    """A file: the call goes on when it is there."""
    die: bool = False
    """Carry it out and die before it is answered."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What kind of driver it is."""

    name: str = "dir.csi.tempolet.test"
    capabilities: tuple[str, ...] = ("STAGE_UNSTAGE_VOLUME",)
    versions: tuple[str, ...] = ("1.0.0",)
    kind: str = "CSIPlugin"


@dataclass
class DriverFolder:
    """The folder of one driver: its volumes, its orders and its calls."""

    path: Path
    orders: dict[str, Order] = field(default_factory=dict)

    def setup(self, setup: Setup) -> None:
        """Say what kind of driver is to be started here."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "setup.json").write_text(json.dumps(asdict(setup)))

    def read_setup(self) -> Setup:
        """Read what kind of driver this is."""
        said = json.loads((self.path / "setup.json").read_text())
        return Setup(said["name"], tuple(said["capabilities"]), tuple(said["versions"]), said["kind"])

    def order(self, call: str, order: Order | None) -> None:
        """Give an order for one kind of call, or take it back."""
        self.orders.pop(call, None)
        if order is not None:
            self.orders[call] = order
        written = self.path / "orders.new"
        written.write_text(json.dumps({name: asdict(one) for name, one in self.orders.items()}))
        written.replace(self.path / "orders.json")

    def order_for(self, call: str) -> Order:
        """Read the order for a call that has just been written down."""
        try:
            orders = json.loads((self.path / "orders.json").read_text())
        except FileNotFoundError:
            return Order()
        order = Order(**orders.get(call, {}))
        return order if self.count(call) <= order.times else Order()

    def write_call(self, call: str, asked: dict[str, Any]) -> None:
        """Write a call down."""
        with (self.path / "calls.jsonl").open("a") as calls:
            calls.write(json.dumps({"call": call} | asked) + "\n")

    def calls(self, *kinds: str) -> list[dict[str, Any]]:
        """Read the calls, all of them or of these kinds, in order."""
        try:
            lines = (
                (self.path / "calls.jsonl").read_text().rpartition("\n")[0].splitlines()
            )  # none that is being written
        except FileNotFoundError:
            return []
        found = [json.loads(line) for line in lines]
        return [one for one in found if not kinds or one["call"] in kinds]

    def count(self, call: str) -> int:
        """Count the calls of a kind."""
        return len(self.calls(call))

    def forget_calls(self) -> None:
        """Begin to count anew."""
        (self.path / "calls.jsonl").unlink(missing_ok=True)

    def volume(self, handle: str) -> Path:
        """Name the folder that a volume shows; a test writes its content there."""
        return self.path / "volumes" / handle
