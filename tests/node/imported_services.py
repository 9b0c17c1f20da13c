"""Imports what worker, poller and node import, in the process that `forked_service` forks them from."""

import gc

from worker.daemon.lean_imports import bare_aiohttp, bare_kubernetes, bare_temporalio, without

bare_kubernetes()
bare_aiohttp()
bare_temporalio()
with without("rich"):
    import worker.commands.serve
    import worker.daemon.node_client
    import worker.processes.cluster_worker
    import worker.processes.node
    import worker.processes.poller
    import worker.processes.worker  # noqa: F401

gc.freeze()  # so that no service copies the pages of all these objects when it collects
