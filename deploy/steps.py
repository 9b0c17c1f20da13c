"""One line a step with how long it took, before any library for that is there.

Used by `setup.py`; the lines look like those of `tempolet up`, which comes after it.
"""

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class Step:
    """A step under way; `detail` is what its line says."""

    detail: str = ""


@contextlib.contextmanager
def step(name: str) -> Iterator[Step]:
    """Time a step and print its line; on a terminal its name is seen while it runs."""
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
