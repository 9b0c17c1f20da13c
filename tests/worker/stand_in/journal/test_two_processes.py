"""Can another process read the journal while the worker writes it, and is what a killed worker had appended still there?"""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.patience import PATIENCE
from tests.worker.stand_in.journal.journals import kept_in, keys_of, numbers, workflow_id
from worker.stand_in.journal.kept import Story
from worker.stand_in.journal.reading import JournalReader

U1: Final = workflow_id("u1")
WRITER: Final = """
import sys
from pathlib import Path
from tests.worker.stand_in.journal.journals import *
with journal_in(Path(sys.argv[1])) as journal:
    for number in range(1, int(sys.argv[2]) + 1):
        journal.keep(workflow_id("u1"), start("u1", restarts=number), PLACE, folded=number - 1)
        print(journal.append(workflow_id("u1"), entry(number, "x" * number)), flush=True)
"""


def writer(state_dir: Path, entries: int) -> "subprocess.Popen[str]":
    """Start a process that writes so many entries, and prints each position once it is on disk."""
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(state_dir), str(entries)], stdout=subprocess.PIPE, text=True
    )


def is_whole(story: Story) -> bool:
    """Say whether nothing of a story is missing or wrong."""
    found = numbers(story)
    contents = [one.entry.value == "x" * one.position for one in story.entries]
    return found == list(range(1, len(found) + 1)) and all(contents) and not story.unreadable


def test_a_reader_sees_whole_entries_and_states(tmp_path: Path) -> None:
    """A record that is being written is not there yet."""
    reader = JournalReader(tmp_path, keys_of(tmp_path))
    with writer(tmp_path, 100) as process:
        assert process.stdout is not None
        for line in process.stdout:
            story = reader.entries(U1)
            assert is_whole(story)
            assert len(story.entries) >= int(line)
            for kept in reader.kept():
                assert kept.start.observed is not None
                assert kept.tail.unreadable == 0
        assert process.wait(PATIENCE) == 0
    assert [one.workflow_id for one in reader.kept()] == [U1]
    assert len(reader.entries(U1, after=90).entries) == 10


def test_a_killed_worker_loses_no_entry_that_it_had_appended(tmp_path: Path) -> None:
    """And the next one goes on after it."""
    keys_of(tmp_path)
    with writer(tmp_path, 100_000) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(50)]
        process.kill()
        told += [int(line) for line in process.stdout]
    found = kept_in(tmp_path)["u1"]
    whole = JournalReader(tmp_path, keys_of(tmp_path)).entries(U1)
    assert is_whole(whole)
    assert numbers(whole)[-1] - told[-1] in (0, 1)
    assert numbers(found.tail) == list(range(found.folded + 1, numbers(whole)[-1] + 1))
