"""Does each pod with a user namespace get a range of IDs that no other pod has, and keep it?

The rows are the kubelet's (pkg/kubelet/userns/userns_manager_test.go).
"""

import json
from pathlib import Path
from typing import Any

import pytest

from activities.sandbox.user_namespaces import FILE, UserNamespaces, UserRangeError
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.user_ids import UNIT, IdRanges

BASIC = {"hostId": 2 * UNIT, "containerId": 0, "length": UNIT}


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    """Return a node's folder of pods, with two pods."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return tmp_path


def begins(users: cri.UserNamespace) -> int:
    """Return the first ID of a pod's users on the node; groups are the same."""
    (user,), (group,) = users.uids, users.gids
    assert (users.mode, user, user.container_id) == (cri.NamespaceMode.POD, group, 0)
    return int(user.host_id)


@pytest.mark.parametrize(
    "ranges",
    [
        pytest.param(IdRanges(), id="by-default"),
        pytest.param(IdRanges(1048576, 1048576 * 2000, 1048576), id="larger-ones"),
        pytest.param(IdRanges(UNIT, 2 * UNIT), id="just-enough"),
    ],
)
def test_two_pods(pods: Path, ranges: IdRanges) -> None:
    """Their ranges differ, a new process reads the same ones, and a removed pod's range is free again."""
    first = begins(UserNamespaces(ranges).of_pod(pods / "one"))
    anew = UserNamespaces(ranges)
    second = begins(anew.of_pod(pods / "two"))
    assert first != second
    for found in (first, second):
        assert ranges.first <= found <= ranges.first + ranges.count - ranges.per_pod
        assert found % ranges.per_pod == 0
    assert (begins(anew.of_pod(pods / "one")), begins(anew.of_pod(pods / "two"))) == (first, second)
    written = json.loads((pods / "one" / FILE).read_text())
    mapping = {"hostId": first, "containerId": 0, "length": ranges.per_pod}
    assert written == {"uidMappings": [mapping], "gidMappings": [mapping]}, "a kubelet reads it"
    assert sorted(one.name for one in (pods / "one").iterdir()) == [FILE]


def test_there_are_only_so_many(pods: Path) -> None:
    """The last pod gets an error, and a range when another pod is gone."""
    node = UserNamespaces(IdRanges(UNIT, UNIT))
    first = begins(node.of_pod(pods / "one"))
    with pytest.raises(UserRangeError, match="could not find an empty slot to allocate a user namespace"):
        node.of_pod(pods / "two")
    assert not (pods / "two" / FILE).exists()
    (pods / "one" / FILE).unlink()
    assert begins(node.of_pod(pods / "two")) == first


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param({"uidMappings": [BASIC], "gidMappings": [BASIC]}, "", id="a-range"),
        pytest.param("", "", id="nothing-yet"),
        pytest.param("{", "invalid user namespace mappings file", id="no-json"),
        pytest.param([], "no more than one mapping", id="no-object"),
        pytest.param(
            {"uidMappings": [BASIC | {"length": 0}], "gidMappings": [BASIC | {"length": 0}]},
            "wrong user namespace length 0",
            id="no-length",
        ),
        pytest.param(
            {"uidMappings": [BASIC | {"length": "65536"}], "gidMappings": [BASIC | {"length": "65536"}]},
            "no range",
            id="no-number",
        ),
        pytest.param(
            {"uidMappings": [BASIC | {"length": UNIT + 1}], "gidMappings": [BASIC | {"length": UNIT + 1}]},
            "wrong user namespace length 65537",
            id="another-length",
        ),
        pytest.param(
            {"uidMappings": [BASIC], "gidMappings": [BASIC | {"hostId": 1}]}, "should be identical", id="other-groups"
        ),
        pytest.param(
            {"uidMappings": [BASIC | {"hostId": UNIT + 1}], "gidMappings": [BASIC | {"hostId": UNIT + 1}]},
            "wrong user namespace offset specified 65537",
            id="in-the-middle",
        ),
        pytest.param(
            {"uidMappings": [BASIC | {"hostId": 0}], "gidMappings": [BASIC | {"hostId": 0}]},
            "id 0 is out of range",
            id="the-node's-own",
        ),
        pytest.param({"uidMappings": [BASIC], "gidMappings": [BASIC, BASIC]}, "identical", id="two-ranges-of-groups"),
        pytest.param({"uidMappings": [BASIC, BASIC], "gidMappings": [BASIC]}, "no more than one", id="two-ranges"),
        pytest.param(
            {"uidMappings": [BASIC | {"containerId": 1}], "gidMappings": [BASIC | {"containerId": 1}]},
            "UID 0 must be mapped",
            id="no-root",
        ),
    ],
)
def test_what_stands_there(pods: Path, content: Any, why: str) -> None:
    """A valid file is used; an invalid one keeps its own pod from starting, and no other."""
    (pods / "one" / FILE).write_text(content if isinstance(content, str) else json.dumps(content))
    node = UserNamespaces()
    if why:
        with pytest.raises(UserRangeError, match=why):
            node.of_pod(pods / "one")
    else:
        begins(node.of_pod(pods / "one"))
    assert begins(node.of_pod(pods / "two")) >= UNIT


def test_a_range_that_another_pod_has_is_not_taken(pods: Path) -> None:
    """However it came about."""
    for name in ("one", "two"):
        (pods / name / FILE).write_text(json.dumps({"uidMappings": [BASIC], "gidMappings": [BASIC]}))
    with pytest.raises(UserRangeError, match='range picked for pod "one" already taken'):
        UserNamespaces().of_pod(pods / "one")


def test_larger_ranges_for_the_next_pods(pods: Path) -> None:
    """Existing pods keep theirs, which never overlap with new ones."""
    first = begins(UserNamespaces(IdRanges(UNIT, 4 * UNIT)).of_pod(pods / "one"))
    larger = UserNamespaces(IdRanges(2 * UNIT, 4 * UNIT, 2 * UNIT))
    second = larger.of_pod(pods / "two").uids[0]
    assert (second.length, set(range(second.host_id, second.host_id + 2 * UNIT, UNIT)) & {first}) == (2 * UNIT, set())
    assert larger.of_pod(pods / "one").uids[0] == cri.IDMapping(host_id=first, container_id=0, length=UNIT)


def test_a_pod_without_a_directory_has_none(pods: Path) -> None:
    """The directory is made with the pod; nothing is created here."""
    with pytest.raises(FileNotFoundError):
        UserNamespaces().of_pod(pods / "three")
    assert not (pods / "three").exists()
