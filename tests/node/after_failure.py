"""Cleans a shared node after a failed test: pods that it left, and processes that it had stopped.

A hook for a folder's conftest. A test that fails does not reach its own cleanup, and without this the tests after it would
fail for that alone.
"""

from collections.abc import Generator

import pytest

from tests.node.tempolet_node import TempoletNode


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Generator[None, object, object]:
    """When a test fails, restore the nodes of its fixtures for the next test, while its other fixtures still exist."""
    nodes = [made for made in item.funcargs.values() if isinstance(made, TempoletNode)]
    known = [node.known() for node in nodes]
    try:
        return (yield)
    except (Exception, pytest.fail.Exception) as failure:
        for node, pods in zip(nodes, known, strict=True):
            _restore(node, pods, failure)
        raise


def _restore(node: TempoletNode, pods: frozenset[str], failure: BaseException) -> None:
    try:
        node.restore(pods)
    except Exception as error:  # noqa: BLE001 - report the test's own failure
        failure.add_note(f"and what it left on {node.name} could not be taken away: {error}")
