"""How long tests wait for other processes, threads and connections.

One limit for all, far above what a loaded machine needs: it ends a test that would hang, and asserts nothing. A test of a time
limit states its own limit; so does a test in which polling would hide a missing event.
"""

from typing import Final

PATIENCE: Final = 120.0
