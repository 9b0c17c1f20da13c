"""Access to images on this node, from its configuration: logins, credential providers, records of pulls."""

import os
from pathlib import Path

from activities.images.access.logins import ImageLogins
from activities.images.access.pull_records import PullRecords
from activities.images.access.rights import PullRights
from activities.images.credentials.node_logins import NodeLogins, search_paths
from activities.images.credentials.provider_exec import ProviderProgram
from activities.images.credentials.providers import CredentialProvider
from activities.node_services import NodeServices
from worker.daemon.config import NodeConfig
from worker.settings.credential_providers.providers import ProviderSettings
from worker.telemetry.image_metrics import ImageMetrics


def image_logins(config: NodeConfig) -> ImageLogins:
    """Create the node's logins; reads nothing yet."""
    files = search_paths(config.root_dir, Path(os.environ.get("HOME") or "/"))
    return ImageLogins(
        NodeLogins(files),
        tuple(_provider(one, config) for one in config.credential_providers.providers),
        admits=config.cluster is None,
    )


def pull_rights(config: NodeConfig) -> PullRights | None:
    """Create the records of pulls; None if pods need not show that they may use an image."""
    verification = config.pulls.verification
    return PullRights(PullRecords(config.root_dir), verification) if verification else None


def count_pulls(services: NodeServices, config: NodeConfig, metrics: ImageMetrics) -> None:
    """Count every pull and every run of a credential provider."""
    services.pulls.measure = metrics.pulled
    for one in services.logins.providers:
        one.measure = metrics.provider_ran
    metrics.providers_configured(config.credential_providers.hash)


def _provider(one: ProviderSettings, config: NodeConfig) -> CredentialProvider:
    program = ProviderProgram(name=one.name, path=one.path, api_version=one.api_version, args=one.args, env=one.env)
    stderr_file = config.state_dir / "credential-providers" / f"{one.name}.stderr"
    return CredentialProvider(program, one.match_images, one.default_cache_duration, one.attributes, stderr_file)
