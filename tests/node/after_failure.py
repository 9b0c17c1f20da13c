"""What a test that failed leaves on a node that it shares with others: its pods, and processes that it had stopped.

A hook for the conftest of a folder: whoever takes away at the end of a test what the test has brought does not come that far when
it fails, and the tests after it would fail for that alone.
"""

from collections.abc import Generator

import pytest

from tests.node.tempolet_node import TempoletNode


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Generator[None, object, object]:
    """When a test fails, make the nodes of its fixtures fit for the next one, while its other fixtures are still there."""
    nodes = [made for made in item.funcargs.values() if isinstance(made, TempoletNode)]
    known = [node.known() for node in nodes]
    try:
        return (yield)
    except (Exception, pytest.fail.Exception) as failure:
        for node, pods in zip(nodes, known, strict=True):
            _make_fit(node, pods, failure)
        raise


def _make_fit(node: TempoletNode, pods: frozenset[str], failure: BaseException) -> None:
    try:
        node.make_fit(pods)
    except Exception as error:  # noqa: BLE001 - the test's own failure is what is to be told
        failure.add_note(f"and what it left on {node.name} could not be taken away: {error}")
