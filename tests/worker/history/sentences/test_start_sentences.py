"""Does the history start with what was known of the pod before its workflow, and why it is not run?"""

import pytest

from proto.temporal import names
from proto.temporal.activities.claims import UnprepareResources
from proto.temporal.activities.volumes import UnmountVolumes
from proto.temporal.names import API_SOURCE
from proto.temporal.pod import NodeSettings, PodJson, PodStart
from proto.temporal.pod_inputs import Ended, FirstSight, Rejected
from tests.worker.history.story_recorder import LISTED, POD, START, Recorder

SYSCTLS: PodJson = {"metadata": {}, "spec": {"securityContext": {"sysctls": [{"name": "kernel.sem", "value": "1"}]}}}
FULL = Rejected("OutOfcpu", "Node didn't have enough resource: cpu")
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
            FirstSight(rejected=FULL),
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


@pytest.mark.parametrize(
    ("sight", "is_told"),
    [
        pytest.param(FirstSight(rejected=FULL), False, id="rejected"),
        pytest.param(FirstSight(rejected=FULL, started_at=START), True, id="rejected-and-here-before"),
        pytest.param(FirstSight(rejected=FULL, ended=Ended("Failed", "Evicted")), True, id="ended"),
        pytest.param(FirstSight(), True, id="listed"),
    ],
)
def test_what_is_undone_is_told_if_it_can_have_been_done(sight: FirstSight, is_told: bool) -> None:
    """A rejected pod had no volumes and no claims, though they are undone to be sure."""
    recorded = Recorder()
    recorded.begin(PodStart("node", LISTED, API_SOURCE, first_sight=sight))
    recorded.do(names.UNMOUNT_VOLUMES, UnmountVolumes(POD, ({"name": "a"},)), took=1)
    recorded.do(names.UNPREPARE_RESOURCES, UnprepareResources(POD), took=1)
    said = [one for one in recorded.texts() if "unmounted" in one or "unprepared" in one]
    assert said == (["volume a unmounted (1.00 s)", "resource claims unprepared (1.00 s)"] if is_told else [])
