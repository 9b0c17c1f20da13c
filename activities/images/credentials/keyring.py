"""Finds the logins for an image among all docker configurations, the most specific first; pure.

Only the registry can tell which of two matching logins is right, so all are tried (pkg/credentialprovider/keyring.go).
"""

from dataclasses import dataclass, field

from activities.clients.registry_login import Login
from activities.images.credentials.docker_config import DockerConfig
from activities.images.credentials.locations import DEFAULT_REGISTRY, is_on_default_registry, matches


@dataclass(frozen=True, slots=True)
class SecretSource:
    """The Secret that a login comes from."""

    namespace: str
    name: str
    uid: str = ""
    """Empty for a secret from a folder without UIDs."""


@dataclass(frozen=True, slots=True)
class AccountSource:
    """The ServiceAccount whose token a credential provider got for a login."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Credential:
    """A login and where it comes from."""

    login: Login = field(repr=False)
    source: SecretSource | AccountSource | None = None
    """None: every pod of the node may use it."""


@dataclass(slots=True)
class Keyring:
    """Logins by location."""

    credentials: dict[str, list[Credential]] = field(default_factory=dict)

    def add(self, config: DockerConfig, source: SecretSource | AccountSource | None = None) -> None:
        """Add a configuration's logins."""
        for location, login in config.items():
            self.credentials.setdefault(_key(location), []).append(Credential(login, source))

    def lookup(self, repository: str) -> list[Credential]:
        """Return the logins for a repository (`docker.io/library/busybox`), in the order in which they are tried."""
        fitting = sorted((key for key in self.credentials if matches(key, repository)), reverse=True)
        found = [one for key in fitting for one in self.credentials[key]]
        if not found and is_on_default_registry(repository):
            return self.credentials.get(DEFAULT_REGISTRY, [])
        return found


def _key(location: str) -> str:
    """Normalize a location: no scheme, user or API version, with which docker writes its own hub."""
    plain = location.removeprefix("https://").removeprefix("http://")
    host, slash, path = plain.partition("/")
    path = slash + path.partition("?")[0].partition("#")[0]
    if path.startswith(("/v1/", "/v2/")):
        path = path[len("/v1") :]
    return host.rpartition("@")[2] + ("" if path == "/" else path)
