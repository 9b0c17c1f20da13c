"""Is `memory_manager_state` what the kubelet writes and reads?"""

import json

import pytest

from proto.json_object import WRONG_FIELD
from tests.workflows.decide.memory_nodes.machines import machine, pod
from workflows.decide.memory_nodes.amounts import Assignments, Block, Node, Table
from workflows.decide.memory_nodes.reservations import NONE, STATIC
from workflows.decide.memory_nodes.state_file import read_state, written_state
from workflows.decide.memory_nodes.static_policy import StateError, allocate
from workflows.decide.topology.hints import Hint

KUBELETS = (
    '{"policyName":"Static","machineState":{"10":{"numberOfAssignments":2,"memoryMap":{"hugepages-2Mi":{"total":5,'
    '"systemReserved":0,"allocatable":0,"reserved":0,"free":1},"memory":{"total":5,"systemReserved":0,"allocatable":0,'
    '"reserved":0,"free":1}},"cells":[0,10]},"2":{"numberOfAssignments":0,"memoryMap":{},"cells":[2]}},"entries":'
    '{"u2":{"a":[],"b":[{"numaAffinity":[0,1],"type":"memory","size":7},{"numaAffinity":[0,1],"type":"hugepages-2Mi",'
    '"size":0}]}},"checksum":1211238974}'
)
"""Written by MemoryManagerCheckpointV1 of 1.36.3: nodes are sorted as texts here and as numbers in what is summed."""
CONTENT = Assignments(
    {
        2: Node((2,)),
        10: Node((0, 10), {"memory": Table(total=5, free=1), "hugepages-2Mi": Table(total=5, free=1)}, 2),
    },
    {"u2": {"a": (), "b": (Block((0, 1), "memory", 7), Block((0, 1), "hugepages-2Mi", 0))}},
)


def test_the_kubelets_own_file() -> None:
    """Byte for byte."""
    assert written_state(STATIC, CONTENT) == KUBELETS
    assert read_state(STATIC, KUBELETS) == CONTENT


def test_the_file_of_no_policy() -> None:
    """The kubelet writes one, too."""
    text = '{"policyName":"None","machineState":{},"checksum":4236770233}'
    assert written_state(NONE, Assignments()) == text
    assert read_state(NONE, text) == Assignments()


def test_what_is_written_is_read() -> None:
    """But for what the pod's next containers may have, which the kubelet forgets, too."""
    known = allocate(machine(), pod(app=3), "app", Hint(None, preferred=False))
    assert read_state(STATIC, written_state(STATIC, known)) == Assignments(known.machine, known.containers)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"checksum": 1}, "checkpoint is corrupted"),
        ({"policyName": "None"}, "checkpoint is corrupted"),
        ({"policyName": "\ud800"}, "checkpoint is corrupted"),
        (
            {"policyName": "None", "checksum": 0},
            '[memorymanager] configured policy "Static" differs from state checkpoint policy "None"',
        ),
    ],
)
def test_refused_files(changes: dict[str, object], why: str) -> None:
    """In the kubelet's words; a sum of 0 is none."""
    with pytest.raises(StateError) as refusal:
        read_state(STATIC, json.dumps({**json.loads(KUBELETS), **changes}))
    assert str(refusal.value) == why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON: it is empty"),
        ("[]", "not a JSON object"),
        ("{", "not JSON: wrong at line 1, column 2"),
        ('{"machineState":{"0":{}}}', WRONG_FIELD),
        ('{"entries":{"u":{"c":[1]}}}', WRONG_FIELD),
        ('{"checksum":1e999}', WRONG_FIELD),
    ],
)
def test_no_content(text: str, why: str) -> None:
    """Is no crash, and is told without a word of Python."""
    with pytest.raises(StateError) as refused:
        read_state(STATIC, text)
    assert str(refused.value) == f"no content of a memory_manager_state: {why}"
