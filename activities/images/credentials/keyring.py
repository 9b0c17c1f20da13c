"""The logins at hand for an image: from all docker configurations that count, those that fit, the most specific first.

Pure. Which of two equally good logins is right only the registry can say, so all that fit are tried
(pkg/credentialprovider/keyring.go).
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
    """Empty for one that is kept in a folder without a uid."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A login and whose it is."""

    login: Login = field(repr=False)
    source: SecretSource | None = None
    """None: every pod of the node may use it."""


@dataclass(slots=True)
class Keyring:
    """Logins by location."""

    credentials: dict[str, list[Credential]] = field(default_factory=dict)

    def add(self, config: DockerConfig, source: SecretSource | None = None) -> None:
        """Take over a configuration's logins."""
        for location, login in config.items():
            self.credentials.setdefault(_key(location), []).append(Credential(login, source))

    def lookup(self, repository: str) -> list[Credential]:
        """Find the logins for a repository (`docker.io/library/busybox`), in the order in which they are tried."""
        fitting = [key for key in sorted(self.credentials, reverse=True) if matches(key, repository)]
        found = [one for key in fitting for one in self.credentials[key]]
        if not found and is_on_default_registry(repository):
            return self.credentials.get(DEFAULT_REGISTRY, [])
        return found


def _key(location: str) -> str:
    """Write a location without scheme, user and the API version with which docker writes its own hub."""
    plain = location.removeprefix("https://").removeprefix("http://")
    host, slash, path = plain.partition("/")
    path = slash + path.partition("?")[0].partition("#")[0]
    if path.startswith(("/v1/", "/v2/")):
        path = path[len("/v1") :]
    return host.rpartition("@")[2] + ("" if path == "/" else path)
