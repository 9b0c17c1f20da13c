"""Is `cpu_manager_state` restored as by the kubelet (state_checkpoint_test.go), also a file of version 1?"""

import json
from typing import Any

import pytest

from proto.json_object import WRONG_FIELD
from workflows.decide.cpus.cpu_sets import parse_cpus
from workflows.decide.cpus.state_file import read_state, written_state
from workflows.decide.cpus.static_policy import Assignments, StateError

NONE_OF_IT = "no content of a cpu_manager_state"
TWO = {"container1": parse_cpus("4-6"), "container2": parse_cpus("1-3")}
BY_ID = {"containerID1": "4-6", "containerID2": "1-3"}
KNOWN = {"containerID1": ("pod", "container1"), "containerID2": ("pod", "container2")}
RESTORED = Assignments(parse_cpus("1-3"), {"pod": TWO})


def content(checksum: int, shared: str = "1-3", policy: str = "none", **more: Any) -> str:
    """Write a file."""
    return json.dumps({"policyName": policy, "defaultCpuSet": shared, **more, "checksum": checksum})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(content(354655845, "4-6", entries={}), Assignments(parse_cpus("4-6")), id="default-cpu-set"),
        pytest.param(
            content(3610638499, entries={"pod": {"container1": "4-6", "container2": "1-3"}}), RESTORED, id="version-2"
        ),
        pytest.param(content(1694838852), Assignments(parse_cpus("1-3")), id="version-1-without-containers"),
        pytest.param(content(3680390589, entries=BY_ID), RESTORED, id="version-1"),
        pytest.param(content(0, entries=BY_ID), RESTORED, id="version-1-without-a-checksum"),
    ],
)
def test_a_file_is_restored(text: str, expected: Assignments) -> None:
    """The checksums are those of the kubelet's own tests."""
    found = read_state("none", text, lambda: KNOWN)
    assert found == expected
    assert read_state("none", written_state("none", found)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(content(1337, "4-6", entries={}), "checkpoint is corrupted", id="a-wrong-checksum"),
        pytest.param(content(1337, entries=BY_ID), "checkpoint is corrupted", id="of-version-1"),
        pytest.param("{", f"{NONE_OF_IT}: not JSON: wrong at line 1, column 2", id="no-json"),
        pytest.param("", f"{NONE_OF_IT}: not JSON: it is empty", id="empty"),
        pytest.param("[1,2]", f"{NONE_OF_IT}: not a JSON object", id="a-list"),
        pytest.param('{"checksum":"x"}', f"{NONE_OF_IT}: {WRONG_FIELD}", id="no-checksum"),
        pytest.param('{"checksum":1e999}', f"{NONE_OF_IT}: {WRONG_FIELD}", id="an-endless-checksum"),
        pytest.param('{"entries":[1]}', f"{NONE_OF_IT}: {WRONG_FIELD}", id="entries-in-a-list"),
        pytest.param('{"entries":{"u":{"c":5}}}', f"{NONE_OF_IT}: {WRONG_FIELD}", id="cpus-in-a-number"),
        pytest.param(
            content(0, policy="other"),
            'configured policy "none" differs from state checkpoint policy "other"',
            id="another-policy",
        ),
        pytest.param(
            content(0, policy="other", entries=BY_ID),
            'configured policy "none" differs from state checkpoint policy "other"',
            id="another-policy-of-version-1",
        ),
        pytest.param(
            content(0, entries={"containerID3": "1"}),
            "failed to migrate checkpoint from v1 to v2: containerID 'containerID3' not found in initial containers list",
            id="an-unknown-container",
        ),
        pytest.param(content(0, entries={"a": "1", "b": {}}), f"{NONE_OF_IT}: {WRONG_FIELD}", id="of-two-versions"),
        pytest.param(content(0, entries={"containerID1": "x"}), 'could not parse cpuset "x" for', id="no-cpus"),
    ],
)
def test_a_file_is_refused(text: str, words: str) -> None:
    """In the kubelet's words."""
    with pytest.raises(StateError) as refused:
        read_state("none", text, lambda: KNOWN)
    assert words in str(refused.value)


def test_the_runtime_is_asked_for_version_1_only() -> None:
    """And not for a file that is corrupt."""

    def asked() -> dict[str, tuple[str, str]]:
        raise AssertionError("the runtime was asked")

    read_state("none", content(1694838852), asked)
    with pytest.raises(StateError, match="checkpoint is corrupted"):
        read_state("none", content(1337, entries=BY_ID), asked)
