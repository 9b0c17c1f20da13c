"""The node's credential providers: programs that know the logins for some registries.

Run for an image that a provider is configured for. A response is cached as long as it says, for the image, its
registry or everything that the provider is for; concurrent requests share one run. A provider that fails counts as one
without logins, because other logins may do (pkg/credentialprovider/plugin/plugin.go).

What a failing provider wrote to stderr may hold a secret. The kubelet logs it, and so it is in the journal, which a group of
the machine reads, and whoever may read the node's logs through the API. Here it is kept in a file of root's instead.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Final, Protocol

from activities.execution.single_flight import SingleFlight
from activities.files.atomic_files import write_atomically
from activities.images.credentials.docker_config import DockerConfig
from activities.images.credentials.keyring import Keyring
from activities.images.credentials.locations import matches
from activities.images.credentials.provider_exec import (
    CacheKeyType,
    ProviderAnswer,
    ProviderFailed,
    ProviderProgram,
    run_provider,
)

_GLOBAL: Final = "<global>"
_log: Final = logging.getLogger(__name__)


class ProviderMeasure(Protocol):
    """Records runs of providers."""

    def __call__(self, provider: str, seconds: float, *, failed: bool) -> None:
        """Take the provider's name, the duration, and whether it failed."""


def ignore_run(provider: str, seconds: float, *, failed: bool) -> None:
    """Record nothing."""


@dataclass(frozen=True, slots=True)
class _Cached:
    """A cached response and when it expires."""

    config: DockerConfig = field(repr=False)
    until: float


@dataclass(slots=True)
class CredentialProvider:
    """One provider, the images that it is for, and its cached responses."""

    program: ProviderProgram
    match_images: tuple[str, ...]
    default_cache_duration: timedelta = timedelta()
    stderr_file: Path | None = None
    """Gets what it wrote to stderr when it failed last; None: that is dropped."""
    measure: ProviderMeasure = ignore_run
    clock: Callable[[], float] = monotonic
    _cached: dict[str, _Cached] = field(default_factory=dict, repr=False)
    _runs: SingleFlight[ProviderAnswer] = field(default_factory=SingleFlight)
    _keeping: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    def is_for(self, repository: str) -> bool:
        """Report whether it is configured for a repository."""
        return any(matches(one, repository) for one in self.match_images)

    async def config(self, repository: str) -> DockerConfig:
        """Return its logins for a repository, cached or by running it; raises ProviderFailed."""
        self._cached = {key: one for key, one in self._cached.items() if one.until >= self.clock()}
        for key in (repository, _registry(repository), _GLOBAL):
            if cached := self._cached.get(key):
                return cached.config
        answer = await self._runs.run(repository, lambda: self._run(repository), f"run {self.program.name}")
        keep_for = self.default_cache_duration if answer.keep_for is None else answer.keep_for
        if keep_for > timedelta():
            self._cached[_cache_key(answer, repository)] = _Cached(
                answer.config, self.clock() + keep_for.total_seconds()
            )
        return answer.config

    async def _run(self, repository: str) -> ProviderAnswer:
        begun, failed = monotonic(), True
        try:
            answer = await run_provider(self.program, repository)
            failed = False
        except ProviderFailed as error:
            raise ProviderFailed(f"{error}{await self._kept(error.stderr)}") from None
        finally:
            self.measure(self.program.name, monotonic() - begun, failed=failed)
        return answer

    async def _kept(self, stderr: str) -> str:
        """Keep what it wrote, and return the end of the message: where that is."""
        if not stderr or self.stderr_file is None:
            return ""
        try:
            async with self._keeping:
                await asyncio.to_thread(_keep, self.stderr_file, stderr)
        except OSError as error:
            return f"; its stderr cannot be kept: {error}"
        return f"; its stderr is in {self.stderr_file}"


async def collect_logins(providers: Iterable[CredentialProvider], repository: str) -> tuple[Keyring, list[str]]:
    """Collect the logins of all providers for a repository, and the failures; they run in parallel."""
    asked = [one for one in providers if one.is_for(repository)]
    answers = await asyncio.gather(*(one.config(repository) for one in asked), return_exceptions=True)
    keyring, warnings = Keyring(), []
    for one, answer in zip(asked, answers, strict=True):
        if isinstance(answer, ProviderFailed):
            _log.error(
                "failed to get credentials for image %s from provider %s: %s", repository, one.program.name, answer
            )
            warnings.append(f"credential provider {one.program.name} failed: the worker's log has the reason")
        elif isinstance(answer, BaseException):
            raise answer
        else:
            keyring.add(answer)
    return keyring, warnings


def _keep(file: Path, stderr: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(file, f"{stderr}\n".encode(errors="replace"), synced=False)


def _cache_key(answer: ProviderAnswer, repository: str) -> str:
    match answer.good_for:
        case CacheKeyType.IMAGE:
            return repository
        case CacheKeyType.REGISTRY:
            return _registry(repository)
        case CacheKeyType.GLOBAL:
            return _GLOBAL


def _registry(repository: str) -> str:
    return repository.partition("/")[0]
