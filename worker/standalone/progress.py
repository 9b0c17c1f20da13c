"""Progress output of `up` and `down`: one line a step, with its duration.

On a terminal the running step has a spinner and a changing text; elsewhere (CI, a log) only the finished lines are
printed.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table


@dataclass(slots=True)
class Step:
    """A step in progress; `detail` is printed at its end, `doing` meanwhile."""

    name: str
    doing: Callable[[str], None]
    detail: str = ""


@dataclass(slots=True)
class Progress:
    """Prints steps."""

    console: Console = field(default_factory=Console)
    started: float = field(default_factory=time.monotonic)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time a step and print its line when it ends; a step that fails is marked, and the error raised."""
        began = time.monotonic()
        with self.console.status(f"{name} …") as status:
            step = Step(name, lambda words: status.update(f"{name}: {words} …"))
            try:
                yield step
            except BaseException:
                self._line("[red]✗[/red]", step, began)
                raise
        self._line("[green]✓[/green]", step, began)

    def say(self, words: str) -> None:
        """Print a line as it is."""
        self.console.print(words, markup=False, highlight=False, soft_wrap=True)

    def table(self, table: Table) -> None:
        """Print a table."""
        self.console.print(table)

    def total(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.started

    def _line(self, mark: str, step: Step, began: float) -> None:
        took = f"{time.monotonic() - began:6.2f} s"
        self.console.print(f"{mark} {took}  {step.name:<12}", end=" ", highlight=False)
        self.console.print(step.detail, markup=False, highlight=False, soft_wrap=True)
