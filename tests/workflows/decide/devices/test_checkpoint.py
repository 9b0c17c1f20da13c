"""Is `kubelet_internal_checkpoint` the kubelet's?

The text below was written by kubelet 1.36.3's device manager (tests/cluster/decisions, seed 12).
"""

import json
from pathlib import Path

import pytest

from proto.json_object import UNREADABLE, WRONG_FIELD
from workflows.decide.devices.assignments import Assigned, Assignments
from workflows.decide.devices.checkpoint import Checkpoint, CheckpointError, read_checkpoint, written_checkpoint

OF_A_KUBELET = (Path(__file__).parent / "kubelet_internal_checkpoint").read_text()


def test_a_kubelets_file_is_read() -> None:
    """Its checksum is right, and written again it says the same."""
    found = read_checkpoint(OF_A_KUBELET)
    assert list(found.assignments.entries())
    assert read_checkpoint(written_checkpoint(found)) == found


def test_the_checksum_is_the_kubelets() -> None:
    """Of the same content in the same order."""
    theirs = json.loads(OF_A_KUBELET)
    assert json.loads(written_checkpoint(read_checkpoint(OF_A_KUBELET)))["Checksum"] > 0
    theirs["Checksum"] += 1
    with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
        read_checkpoint(json.dumps(theirs))


def test_an_empty_one() -> None:
    """As a kubelet writes it before any plugin came."""
    assert read_checkpoint(written_checkpoint(Checkpoint())) == Checkpoint()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON: it is empty"),
        ("[]", "not a JSON object"),
        ('{"Data":', "not JSON: wrong at line 1, column 9"),
        ("[" * 100_000, UNREADABLE),
        ("{}", WRONG_FIELD),
        ('{"Data":null}', WRONG_FIELD),
        ('{"Data":7}', WRONG_FIELD),
        ('{"Data":{},"Checksum":1e999}', WRONG_FIELD),
        ('{"Data":{"PodDeviceEntries":[{}]}}', WRONG_FIELD),
    ],
)
def test_another_file_is_refused(text: str, why: str) -> None:
    """In one kind of error, in plain words."""
    with pytest.raises(CheckpointError) as refused:
        read_checkpoint(text)
    assert str(refused.value) == f"no content of a kubelet_internal_checkpoint: {why}"


def test_what_is_kept() -> None:
    """Devices by NUMA node, and the plugin's answer."""
    given = Assignments().with_assigned("u", "c", "example.com/gpu", Assigned({0: ("a",), -1: ("b",)}, b"\x00\xff"))
    checkpoint = Checkpoint(given, {"example.com/gpu": ("a", "b")})
    assert read_checkpoint(written_checkpoint(checkpoint)) == checkpoint
