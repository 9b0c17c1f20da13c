"""The node's own docker configuration: logins for every pod of the node.

Searched where the kubelet searches (credentialprovider.DefaultDockerConfigJSONPaths and DefaultDockercfgPaths): the
first readable file is used, and cached for five minutes.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Final

from activities.images.credentials.docker_config import DockerConfig, NotADockerConfig, docker_config_json, dockercfg

KEPT_FOR: Final = timedelta(minutes=5)

_JSON: Final = "config.json"
_OLD: Final = ".dockercfg"
_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class NodeLogins:
    """The logins in the first readable file."""

    files: Sequence[Path] = ()
    _config: DockerConfig = field(default_factory=dict, repr=False)
    _fresh_until: float = 0.0

    async def config(self) -> DockerConfig:
        """Return the logins, read again after five minutes."""
        if self.files and monotonic() >= self._fresh_until:
            self._config = await asyncio.to_thread(_first, self.files)
            self._fresh_until = monotonic() + KEPT_FOR.total_seconds()
        return self._config


def search_paths(root_dir: Path, home: Path) -> tuple[Path, ...]:
    """List the files in search order."""
    places, root = (root_dir, Path()), Path("/")
    newer = [one / _JSON for one in (*places, home / ".docker", root / ".docker")]
    older = [one / _OLD for one in (*places, home, root)]
    return (*newer, *older)


def _first(files: Iterable[Path]) -> DockerConfig:
    for path in files:
        read: Callable[[bytes], DockerConfig] = docker_config_json if path.name == _JSON else dockercfg
        try:
            return read(path.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, NotADockerConfig) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            _log.warning("%s is not a usable docker configuration: %s", path, why)
    return {}
