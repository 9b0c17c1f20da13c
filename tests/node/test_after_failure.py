"""Is a shared node restored after a test that failed?"""

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from tests.node.after_failure import pytest_runtest_call
from tests.node.tempolet_node import TempoletNode, pod_manifest


def test_what_a_failed_test_brought_and_stopped_is_made_good(node: TempoletNode) -> None:
    """The test's pod is removed, the worker that it killed runs again, and another test's pod is left alone."""
    node.apply(pod_manifest("stays"))
    stays = node.until_running("stays")
    item: Any = SimpleNamespace(funcargs={"node": node})
    call = pytest_runtest_call(item)
    next(call)
    node.apply(pod_manifest("left"))
    node.until_running("left")
    node.stop("worker", signal.SIGKILL)
    with pytest.raises(AssertionError, match="the test fails"):
        call.throw(AssertionError("the test fails"))
    assert node.pod("left") is None
    assert node.processes["worker"].poll() is None
    assert node.until_running("stays").containers == stays.containers
    node.take_away("stays")
