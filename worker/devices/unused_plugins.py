"""Why device plugins that have come are not in use, by resource: the last reason of each, for the pods that wait for them."""

from collections.abc import Mapping


class UnusedPlugins:
    """Those of one node; as many as there may be resources, of which the oldest are forgotten first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._why: dict[str, str] = {}

    @property
    def now(self) -> Mapping[str, str]:
        """Return all reasons."""
        return self._why

    def get(self, resource: str) -> str:
        """Return why the plugin of a resource is not in use; empty if it is, or none has come."""
        return self._why.get(resource, "")

    def tell(self, resource: str, why: str) -> bool:
        """Keep a reason, or forget it if there is none any more; report whether that is news."""
        if self._why.get(resource, "") == why:
            return False
        self._why.pop(resource, None)
        if why:
            self._why[resource] = why
            if len(self._why) > self._most:
                del self._why[next(iter(self._why))]
        return True
