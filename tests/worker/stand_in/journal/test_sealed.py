"""Does what is sealed open for its workflow and its kind of file only?"""

from pathlib import Path

import pytest

from tests.worker.stand_in.journal.journals import keys_of, workflow_id
from worker.payloads.refused import PayloadRefused
from worker.stand_in.journal.sealed import SealedValues
from worker.temporal.keys import KeyMissing

U1, U2 = workflow_id("u1"), workflow_id("u2")


@pytest.fixture
def sealing(tmp_path: Path) -> SealedValues:
    """Use the key in the test's folder."""
    return SealedValues(keys_of(tmp_path))


@pytest.mark.parametrize(
    ("file", "workflow", "opens"),
    [
        pytest.param("state", U1, True, id="as-it-was-sealed"),
        pytest.param("state", None, True, id="the-workflow-is-not-known"),
        pytest.param("story", U1, False, id="another-kind-of-file"),
        pytest.param("story", None, False, id="another-kind-of-file-of-a-workflow-that-is-not-known"),
        pytest.param("state", U2, False, id="another-workflow"),
    ],
)
def test_what_opens(sealing: SealedValues, file: str, workflow: str | None, *, opens: bool) -> None:
    """The workflow's id can be read, and is verified."""
    sealed = sealing.seal([sealing.plain(7), sealing.plain("x")], U1, "state")
    try:
        found, values = sealing.open(sealed, file, workflow)
    except PayloadRefused:
        assert not opens
    else:
        assert opens
        assert (found, [sealing.value(values[0], int), sealing.value(values[1], str)]) == (U1, [7, "x"])


def test_another_workflow_is_not_put_in_its_place(sealing: SealedValues) -> None:
    """The id stands in clear."""
    sealed = sealing.seal([sealing.plain(7)], U1, "state")
    with pytest.raises(PayloadRefused):
        sealing.open(sealed.replace(U1.encode(), U2.encode()), "state")


@pytest.mark.parametrize("data", [b"", b"x", b"\xff" * 40])
def test_what_is_not_sealed_is_refused(sealing: SealedValues, data: bytes) -> None:
    """Whatever it is."""
    with pytest.raises(PayloadRefused):
        sealing.open(data, "state")


def test_a_missing_key_is_another_answer(tmp_path: Path, sealing: SealedValues) -> None:
    """Whether it is ours cannot be said."""
    sealed = sealing.seal([sealing.plain(7)], U1, "state")
    path = tmp_path / "keys"
    path.write_text(path.read_text().split()[0] + "\n")
    other = tmp_path / "other"
    other.mkdir()
    keys_of(other)
    path.write_text(path.read_text() + (other / "keys").read_text())
    with pytest.raises(KeyMissing):
        SealedValues(keys_of(tmp_path)).open(sealed, "state")
