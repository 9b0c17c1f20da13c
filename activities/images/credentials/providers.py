"""The node's credential providers: programs that know the logins for some registries.

Run for an image that a provider is configured for. A response is cached as long as it says, for the image, its
registry or everything that the provider is for; concurrent requests share one run. A provider with `tokenAttributes` gets
a token of the pod's service account, and its answers are for that account. A provider that fails counts as one
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
from activities.images.credentials.account_tokens import (
    NO_ACCOUNT_KEY,
    AccountRefused,
    AccountToken,
    AskingPod,
    Key,
    TokenAttributes,
    account_token,
)
from activities.images.credentials.docker_config import DockerConfig
from activities.images.credentials.keyring import AccountSource, Keyring
from activities.images.credentials.locations import matches
from activities.images.credentials.provider_exec import (
    CacheKeyType,
    ProviderAnswer,
    ProviderFailed,
    ProviderProgram,
    run_provider,
)

_GLOBAL: Final = "<global>"
_ECHOED: Final = (
    "credential provider plugin returned the service account token as the password which is not allowed "
    "when service account cache type is not set to 'Token'"
)
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


@dataclass(frozen=True, slots=True)
class ProviderLogins:
    """The logins that a provider gave, and the service account that they are for."""

    config: DockerConfig = field(repr=False)
    account: AccountSource | None = None
    """None: every pod of the node may use them."""


@dataclass(slots=True)
class CredentialProvider:
    """One provider, the images that it is for, and its cached responses."""

    program: ProviderProgram
    match_images: tuple[str, ...]
    default_cache_duration: timedelta = timedelta()
    attributes: TokenAttributes | None = None
    """None: it gets no token of a service account."""
    stderr_file: Path | None = None
    """Gets what it wrote to stderr when it failed last; None: that is dropped."""
    measure: ProviderMeasure = ignore_run
    clock: Callable[[], float] = monotonic
    _cached: dict[tuple[str, Key], _Cached] = field(default_factory=dict, repr=False)
    _runs: SingleFlight[ProviderAnswer] = field(default_factory=SingleFlight)
    _keeping: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    def is_for(self, repository: str) -> bool:
        """Report whether it is configured for a repository."""
        return any(matches(one, repository) for one in self.match_images)

    async def logins(self, repository: str, asking: AskingPod | None = None) -> ProviderLogins:
        """Return its logins for a pod, cached or by running it; raises ProviderFailed."""
        if self.attributes is None or asking is None:
            return ProviderLogins(await self._config(repository, None, NO_ACCOUNT_KEY))
        if not asking.account:
            without = not self.attributes.requires_account
            return ProviderLogins(await self._config(repository, None, NO_ACCOUNT_KEY) if without else {})
        try:
            account = await account_token(self.attributes, asking)
        except AccountRefused as error:
            raise ProviderFailed(str(error)) from error
        if account is None:
            return ProviderLogins({})
        config = await self._config(repository, account, account.cache_key(self.attributes))
        return ProviderLogins(config, account.source)

    async def _config(self, repository: str, account: AccountToken | None, whom: Key) -> DockerConfig:
        self._cached = {key: one for key, one in self._cached.items() if one.until >= self.clock()}
        for key in (repository, _registry(repository), _GLOBAL):
            if cached := self._cached.get((key, whom)):
                return cached.config
        flight = (repository, account.flight_key if account else NO_ACCOUNT_KEY)
        answer = await self._runs.run(flight, lambda: self._run(repository, account), f"run {self.program.name}")
        keep_for = self.default_cache_duration if answer.keep_for is None else answer.keep_for
        if keep_for > timedelta():
            until = self.clock() + keep_for.total_seconds()
            self._cached[_cache_key(answer, repository), whom] = _Cached(answer.config, until)
        return answer.config

    async def _run(self, repository: str, account: AccountToken | None) -> ProviderAnswer:
        begun, failed = monotonic(), True
        try:
            answer = await run_provider(self.program, repository, account)
            failed = False
        except ProviderFailed as error:
            raise ProviderFailed(f"{error}{await self._kept(error.stderr)}") from None
        finally:
            self.measure(self.program.name, monotonic() - begun, failed=failed)
        if account and self._echoes(account, answer):
            raise ProviderFailed(_ECHOED)
        return answer

    def _echoes(self, account: AccountToken, answer: ProviderAnswer) -> bool:
        """Report whether the token came back as a password: it must not outlive its pod in a cache of the account."""
        per_token = self.attributes is not None and self.attributes.cached_per_token
        return not per_token and any(one.password == account.text for one in answer.config.values())

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


async def collect_logins(
    providers: Iterable[CredentialProvider], repository: str, asking: AskingPod | None = None
) -> tuple[Keyring, list[str]]:
    """Collect the logins of all providers for a repository, and the failures; they run in parallel."""
    asked = [one for one in providers if one.is_for(repository)]
    answers = await asyncio.gather(*(one.logins(repository, asking) for one in asked), return_exceptions=True)
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
            keyring.add(answer.config, answer.account)
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
