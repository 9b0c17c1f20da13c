"""Fixtures for tests of the node's API."""

import pytest

from tests.cluster.certificates import Authority, Signed


@pytest.fixture(scope="session")
def node_certificate(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    """Make a serving certificate for loopback."""
    return Authority.make(tmp_path_factory.mktemp("authority")).sign("node", "node", hosts=["127.0.0.1"])
