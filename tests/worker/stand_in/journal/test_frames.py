"""What is read of a file of records after a crash, or after somebody has changed it?"""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.stand_in.journal import frames
from worker.stand_in.journal.frames import LARGEST_RECORD, frame, scan

SEALED = (b"first", b"the second", b"3")
FILE = b"".join(frame(number, one) for number, one in enumerate(SEALED, start=1))


def read(data: bytes) -> list[tuple[int, bytes]]:
    """Return position and content of each record."""
    return [(one.position, one.sealed) for one in scan(data).records]


def test_what_was_framed_is_read() -> None:
    """All of it, in order."""
    assert read(FILE) == list(enumerate(SEALED, start=1))
    assert (scan(FILE).end, scan(FILE).last, scan(FILE).damaged) == (len(FILE), 3, 0)


@pytest.mark.parametrize("length", range(len(FILE)))
def test_a_crash_at_any_byte_leaves_the_whole_records(length: int) -> None:
    """The end of the file is where the last whole record ends."""
    ends = [0]
    for number, one in enumerate(SEALED, start=1):
        ends.append(ends[-1] + len(frame(number, one)))
    whole = max(number for number, end in enumerate(ends) if end <= length)
    known = scan(FILE[:length])
    assert ([one.position for one in known.records], known.end) == (list(range(1, whole + 1)), ends[whole])
    assert known.damaged == 0, "a record that was being written was never there"


@pytest.mark.parametrize("zeros", [1, 15, 16, 17, 4096])
def test_zeros_after_a_crash_are_cut_off(zeros: int) -> None:
    """A file system may have made the file longer before it wrote the data."""
    assert scan(FILE + bytes(zeros)).end == len(FILE)


def test_a_damaged_record_is_left_out_alone() -> None:
    """Its length still leads to the next one."""
    second = FILE.index(b"second")
    known = scan(FILE[:second] + b"S" + FILE[second + 1 :])
    assert ([one.position for one in known.records], known.damaged, known.end) == ([1, 3], 1, len(FILE))


@pytest.mark.parametrize(
    "position", [pytest.param(1, id="the-same-again"), pytest.param(0, id="none"), pytest.param(3, id="an-earlier-one")]
)
def test_a_record_at_another_place_is_left_out(position: int) -> None:
    """Positions rise."""
    known = scan(FILE + frame(position, b"copied"))
    assert ([one.position for one in known.records], known.damaged) == ([1, 2, 3], 1)


@pytest.mark.parametrize("length", [0, LARGEST_RECORD + 1, 2**32 - 1])
def test_no_length_is_believed_beyond_the_largest(length: int) -> None:
    """Nothing after it can be found."""
    sealed = b"x" * min(length, LARGEST_RECORD + 1)
    checksum = zlib.crc32(sealed, zlib.crc32(frames._POSITION.pack(4)))
    known = scan(FILE + frames._HEADER.pack(length, checksum, 4) + sealed + frame(5, b"after"))
    assert [one.position for one in known.records] == [1, 2, 3]


@given(at=st.integers(0, len(FILE) - 1), flipped=st.integers(1, 255))
def test_any_changed_byte_is_noticed(at: int, flipped: int) -> None:
    """No record is read with other content than was written."""
    changed = bytearray(FILE)
    changed[at] ^= flipped
    assert set(read(bytes(changed))) < set(read(FILE))


@given(st.binary(max_size=300))
def test_anything_can_be_read(data: bytes) -> None:
    """Whatever it is, it ends within the file."""
    assert 0 <= scan(data).end <= len(data)
    assert 0 <= scan(FILE + data).end - len(FILE) <= len(data)
