"""The Go program in place of the control plane, which these tests do not need."""

from pathlib import Path

import pytest

from tests.cluster.decisions.program import find_program, why_not


@pytest.fixture(scope="session", autouse=True)
def kube_binaries() -> Path:
    """Return the program, which is built first if it is missing: a minute, or seconds after the kubelet."""
    if reason := why_not():
        pytest.skip(reason)
    return find_program()
