"""How long tests wait for what other processes, threads and connections do.

One limit for all of them, far above what a loaded machine needs: it ends a test that would hang, and judges nothing. A test that
holds something to a time of its own says so beside it; so does one in which a look every so often would hide that no event came.
"""

from typing import Final

PATIENCE: Final = 120.0
