"""Passes every signal of a workflow to its loop.

One handler takes the raw values of all signals, so that one that tempolet has not written is dropped and counted, whatever
its form. Queries need no such care, because the SDK answers a malformed one with an error.
"""

from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from workflows.loops.arrival_loop import ArrivalLoop, Dropped
from workflows.received import MessageRefused, read, shortened


class Signalled:
    """A workflow whose loop receives its signals."""

    loop: ArrivalLoop[Any, Any]

    @workflow.signal(dynamic=True)
    def signalled(self, name: str, values: Sequence[RawValue]) -> None:
        """Queue a signal for the loop; a malformed one is dropped."""
        try:
            self.loop.queue(read(values, self.loop.signal_shapes.get(name)))
        except MessageRefused as refused:
            self.loop.drop(Dropped(shortened(name), str(refused)))
