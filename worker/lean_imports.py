"""Keep libraries that only draw tables out of processes that run for months.

Called by `cli.main` before it imports the worker or the poller: structlog imports rich wherever it is installed, to colour
tracebacks that we never print, and that costs 5 MB in each process.
"""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def without_rich() -> Iterator[None]:
    """Let an import inside the block find no rich; afterwards it can be imported again."""
    if "rich" in sys.modules:
        yield
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # how Python marks a module that shall not be found
    try:
        yield
    finally:
        del sys.modules["rich"]
