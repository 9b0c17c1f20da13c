"""ClusterTrustBundles of the API server, cached from the first pod that mounts one.

Behind the feature gate ClusterTrustBundleProjection, as in the kubelet. Whether the API server has them, and in which version,
is found out then (pkg/kubelet/clustertrustbundle LazyInformerManager).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.resources import Resource
from activities.objects.objects import StoredObject
from activities.objects.trust_bundles import TrustAnchors, TrustBundleRefused
from worker.api_objects.informer import Informer, NotSynced
from worker.api_objects.trust_anchors import anchors

_GROUP: Final = "certificates.k8s.io"
_PLURAL: Final = "clustertrustbundles"
_VERSIONS: Final = ("v1beta1", "v1alpha1")


class ApiTrustBundles:
    """A TrustBundleSource backed by the API; used from one event loop."""

    def __init__(self, api: ApiServer, changed: Callable[[], None]) -> None:
        """Take the function to call on changes."""
        self._api, self._changed = api, changed
        self._followed: Informer | None = None
        self._finding = asyncio.Lock()

    async def anchors(self, source: Mapping[str, Any]) -> TrustAnchors:
        """Return what a projection selects; raises TrustBundleRefused."""
        try:
            followed = await self._kind()
            return anchors(source, _by_name(await followed.all()))
        except NotSynced as error:
            raise TrustBundleRefused(f"ClusterTrustBundle informer has not yet synced: {error}") from error
        except (ApiAway, ApiRefused) as error:
            raise TrustBundleRefused(f"failed to find out which ClusterTrustBundles there are: {error}") from error

    def known(self) -> Mapping[str, StoredObject] | None:
        """Return the known bundles by name; None before one was requested."""
        if self._followed is None or not self._followed.was_read:
            return None
        return _by_name(self._followed.known)

    async def stop(self) -> None:
        """Stop the informer."""
        if self._followed is not None:
            await self._followed.stop()

    async def _kind(self) -> Informer:
        """Start the informer once, although pods that start together call this concurrently."""
        async with self._finding:
            if self._followed is None:
                self._followed = Informer(self._api, await self._resource(), self._changed)
            return self._followed

    async def _resource(self) -> Resource:
        """Find the version in which the API server has them."""
        for version in _VERSIONS:
            try:
                found = await self._api.get(f"/apis/{_GROUP}/{version}")
            except ApiRefused as error:
                if not error.not_found:
                    raise
                continue
            if any(one.get("name") == _PLURAL for one in found.get("resources") or ()):
                return Resource(_PLURAL, _GROUP, version)
        raise TrustBundleRefused("the API server has no ClusterTrustBundles")


def _by_name(objects: Mapping[tuple[str, str], StoredObject]) -> dict[str, StoredObject]:
    return {name: one for (_, name), one in objects.items()}
