"""Does the history start with what was known of the pod before its workflow, and why it is not run?"""

import pytest

from proto.temporal.names import API_SOURCE
from proto.temporal.pod import NodeSettings, PodJson, PodStart
from proto.temporal.pod_inputs import Ended, FirstSight, Rejected
from tests.worker.history.story_recorder import LISTED, START, Recorder

SYSCTLS: PodJson = {"metadata": {}, "spec": {"securityContext": {"sysctls": [{"name": "kernel.sem", "value": "1"}]}}}
HERE = f"it is here since {START.astimezone():%Y-%m-%d %H:%M:%S}, and had no workflow any more"


@pytest.mark.parametrize(
    ("pod", "sight", "told"),
    [
        pytest.param(LISTED, None, [], id="a-manifest's-pod"),
        pytest.param(LISTED, FirstSight(), [], id="a-new-one-of-the-api"),
        pytest.param(LISTED, FirstSight(started_at=START), [HERE], id="one-that-was-here"),
        pytest.param(
            LISTED,
            FirstSight(started_at=START, ended=Ended("Failed", "Evicted")),
            [HERE, "the API shows the pod as Failed (Evicted)"],
            id="one-that-has-ended",
        ),
        pytest.param(
            SYSCTLS,
            FirstSight(rejected=Rejected("OutOfcpu", "Node didn't have enough resource: cpu")),
            ["the node rejects the pod: OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu"],
            id="one-that-is-refused-beside-others",
        ),
        pytest.param(
            SYSCTLS, None, ["the node rejects the pod: SysctlForbidden: "], id="one-that-is-refused-by-itself"
        ),
    ],
)
def test_what_is_told_at_first(pod: PodJson, sight: FirstSight | None, told: list[str]) -> None:
    """One line for each fact; of two reasons for a rejection the one that counts."""
    recorded = Recorder()
    settings = NodeSettings(kernel="6.1")
    recorded.begin(PodStart("node", pod, API_SOURCE, settings=settings, first_sight=sight))
    said = recorded.texts()[1:]
    assert len(said) == len(told)
    assert all(one.startswith(text) for one, text in zip(said, told, strict=True))
