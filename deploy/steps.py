"""Progress output before any library for it is installed: one line a step, with its duration.

The lines look like those of `tempolet up`, which runs after it.
"""

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class Step:
    """A step in progress; `detail` is printed on its line."""

    detail: str = ""


@contextlib.contextmanager
def step(name: str) -> Iterator[Step]:
    """Time a step and print its line; on a terminal its name is shown while it runs."""
    began = time.monotonic()
    this = Step()
    turning = sys.stdout.isatty()
    if turning:
        print(f"  {name} …", end="\r", flush=True)
    mark = "✗"
    try:
        yield this
        mark = "✓"
    finally:
        took = f"{time.monotonic() - began:6.2f} s"
        print(f"{chr(13) + chr(27) + '[K' if turning else ''}{mark} {took}  {name:<12} {this.detail}", flush=True)
