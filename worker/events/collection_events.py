"""Tells the node's events about the collection of its images; `workflows/decide/node/collection_events.py` decides."""

import structlog

from proto.image_collection import CollectionStep
from worker.events.event import WARNING, TellOfNode
from workflows.decide.node.collection_events import Collection, fold_step

_log = structlog.get_logger(__name__)


class CollectionEvents:
    """What is known of the collection in this process, which hears each step."""

    def __init__(self, tell: TellOfNode) -> None:
        """Take what records events of the node."""
        self._tell = tell
        self._known = Collection()

    def heard(self, step: CollectionStep) -> None:
        """Tell what a step brings."""
        self._known, events = fold_step(self._known, step)
        for one in events:
            _log.warning("images could not be collected", reason=one.reason, err=one.message)
            self._tell(WARNING, one.reason, one.message)
