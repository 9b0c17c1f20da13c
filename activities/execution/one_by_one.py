"""Does the same for many items, so that one bad item stops none of the others.

Used by loops over pods, files, workflows and objects of the API.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import structlog

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
LONGEST: Final = 200
"""Characters of an item and of an error in the log: a stranger may have written them."""

_log: Final = structlog.get_logger(__name__)


def one_by_one(
    what: str, items: Iterable[_Item], work: Callable[[_Item], _Answer], name: Callable[[_Item], object] = repr
) -> Iterator[tuple[_Item, _Answer]]:
    """Yield each item with its answer; one whose work raises is logged and left out. `name` is for the log."""
    for item in items:
        try:
            answer = work(item)
        except Exception as error:  # noqa: BLE001 - the other items must not be affected
            log_bad_item(what, item, error, name)
        else:
            yield item, answer


def log_bad_item(what: str, item: _Item, error: BaseException, name: Callable[[_Item], object] = repr) -> None:
    """Log an item that is left out; never raises."""
    try:
        shown = str(name(item))[:LONGEST]
    except Exception as worse:  # noqa: BLE001 - an item may be anything
        shown = f"an item without a name ({type(worse).__name__})"
    _log.error(f"{what}: one is left out", item=shown, err=f"{type(error).__name__}: {error}"[:LONGEST])
