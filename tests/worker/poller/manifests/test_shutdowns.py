"""Are pods refused while the machine goes down, and which ones begin again afterwards?"""

from dataclasses import replace
from pathlib import Path

import pytest

from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import Lifecycle, PodJson
from proto.temporal.pod_inputs import Rejected
from worker.machine.shutdown_sign import ShutdownSign
from worker.poller.manifests.shutdowns import ended_at_shutdown, refusing_at_shutdown
from workflows.decide.shutdown.words import MESSAGE, NOT_ADMITTED

FULL = Rejected("OutOfcpu", "too much")
ENDED = PodSnapshot(
    "w", "n", "d", "web", "u", "file", "", Lifecycle.TERMINATED.value, "Failed", reason="Terminated", message=MESSAGE
)


async def full(pod: PodJson, *, static: bool = False) -> Rejected | None:  # noqa: ARG001 - the Protocol's signature
    """Refuse every pod."""
    return FULL


async def test_pods_are_refused_while_it_goes_down(tmp_path: Path) -> None:
    """The node's own reasons come first, as the kubelet's shutdown manager is asked last."""
    sign = ShutdownSign(tmp_path)
    alone, in_cluster = refusing_at_shutdown(sign, None), refusing_at_shutdown(sign, full)
    assert (await alone({}), await in_cluster({})) == (None, FULL)
    sign.set()
    assert (await alone({}), await in_cluster({})) == (NOT_ADMITTED, FULL)
    sign.clear()
    assert await alone({}) is None


@pytest.mark.parametrize(
    ("pod", "again"),
    [
        pytest.param(ENDED, True, id="a-static-pod-that-ended-at-a-shutdown"),
        pytest.param(
            replace(ENDED, reason="NodeShutdown", message=f"Pod was rejected: {NOT_ADMITTED.message}"),
            True,
            id="one-that-was-refused-then",
        ),
        pytest.param(replace(ENDED, source="api"), False, id="a-pod-of-the-api-has-failed-for-good"),
        pytest.param(replace(ENDED, message="by an operator"), False, id="the-word-alone-is-an-operators"),
        pytest.param(replace(ENDED, lifecycle=Lifecycle.TERMINATING.value), False, id="one-that-still-ends"),
        pytest.param(replace(ENDED, deleting=True), False, id="one-that-is-deleted"),
        pytest.param(replace(ENDED, reason="", message=""), False, id="one-that-failed-by-itself"),
    ],
)
def test_who_begins_again(pod: PodSnapshot, again: bool) -> None:
    """Nobody else would make a static pod again."""
    assert ended_at_shutdown(pod) is again
