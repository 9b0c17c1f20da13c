"""The node's configuration as the Temporal client wants it: one way for worker, poller and the commands."""

from worker.config import NodeConfig
from worker.temporal_client import TemporalSettings


def temporal_settings(config: NodeConfig) -> TemporalSettings:
    """Say where Temporal is and which file seals the payloads; what is not set comes from temporalio.envconfig."""
    keys = config.tempolet.temporal
    return TemporalSettings(
        key_file=config.payload_key_file,
        config_file=keys.config_file,
        profile=keys.profile,
        address=keys.address,
        namespace=keys.namespace,
        retention=keys.retention,
    )
