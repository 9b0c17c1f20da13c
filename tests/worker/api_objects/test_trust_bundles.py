"""Is there one watch of ClusterTrustBundles, however many callers start it?"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from activities.clients.api_server.api_server import ApiServer, Json
from worker.api_objects.trust_bundles import ApiTrustBundles


class Server(ApiServer):
    """A server without bundles, which counts watches."""

    def __init__(self) -> None:
        self.lists = 0

    async def call(self, method: str, path: str, **_: Any) -> Json:  # noqa: ARG002 - an ApiServer's
        """Answer the API versions, or an empty list."""
        await asyncio.sleep(0)
        if path.endswith("/v1beta1"):
            return {"resources": [{"name": "clustertrustbundles"}]}
        self.lists += 1
        return {"kind": "ClusterTrustBundleList", "items": [], "metadata": {"resourceVersion": "1"}}

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Json]:
        """Send no events."""
        await asyncio.Event().wait()
        yield {}


async def test_pods_that_start_together_share_one_watch() -> None:
    """A second one would stay open as long as the worker runs."""
    server = Server()
    bundles = ApiTrustBundles(server, lambda: None)
    source = {"name": "none", "optional": True}
    found = await asyncio.gather(*(bundles.anchors(source) for _ in range(3)))
    assert [one.pem for one in found] == [b"", b"", b""]
    assert server.lists == 1
    await bundles.stop()
    assert not [one for one in asyncio.all_tasks() if one.get_name().startswith("follow")]
