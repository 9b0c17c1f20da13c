"""Is the database given to Temporal's user whole, whenever it is cut off, and nothing else with it, whatever that user has put there?"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unprivileged import NOBODY
from worker.standalone.gateway.database_folder import BESIDE, DATABASE, FOLDER, ROOT, DatabaseRefused, Owner, give_to

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changes owners: needs root")
USER = Owner(NOBODY, NOBODY)
CONTENT = {DATABASE: b"the database", BESIDE[0]: b"the last commits", BESIDE[1]: b"the index"}
CHANGES = ("mkdir", "unlink", "link", "symlink", "replace", "fchown", "fchmod", "fsync")


class CutOff(BaseException):
    """As by a power loss."""


def earlier(state: Path) -> None:
    """Make the files as an earlier release has them."""
    for name, content in CONTENT.items():
        (state / name).write_bytes(content)


def found_by_sqlite(state: Path) -> dict[str, bytes]:
    """Read the database by the name that every release knows, and what is beside it once links are followed."""
    real = (state / DATABASE).resolve()
    return {name: real.with_name(name).read_bytes() for name in CONTENT}


def owners(state: Path) -> set[tuple[int, int, int]]:
    """Return uid, gid and mode of the folder's files."""
    found = [one.lstat() for one in (state / FOLDER).iterdir()]
    return {(one.st_uid, one.st_gid, stat.S_IMODE(one.st_mode)) for one in found}


def assert_given(state: Path, owner: Owner) -> None:
    """The folder and its files are the owner's, and only the link is left in the state folder."""
    folder = (state / FOLDER).stat()
    assert (folder.st_uid, folder.st_gid, stat.S_IMODE(folder.st_mode)) == (owner.uid, owner.gid, 0o700)
    assert owners(state) <= {(owner.uid, owner.gid, 0o600)}
    assert sorted(one.name for one in state.iterdir()) == [FOLDER, DATABASE]
    assert (state / DATABASE).readlink() == Path(FOLDER, DATABASE)


@contextlib.contextmanager
def cut_off_at(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let the changes from the given one on not happen; yields those that did, or were to."""
    done: list[str] = []

    def counted(name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            done.append(name)
            if len(done) > number:
                raise CutOff
            return change(*arguments, **named)

        return call

    with monkeypatch.context() as patch:
        for name in CHANGES:
            patch.setattr(os, name, counted(name, getattr(os, name)))
        yield done


def test_a_new_node_gets_a_folder_and_a_link(tmp_path: Path) -> None:
    """So that every release finds the database that is to be made."""
    give_to(USER, tmp_path)
    assert_given(tmp_path, USER)


@pytest.mark.parametrize("owner", [pytest.param(USER, id="to-the-user"), pytest.param(ROOT, id="to-root")])
def test_an_earlier_releases_database_is_moved(owner: Owner, tmp_path: Path) -> None:
    """With its log, without which the last commits were lost."""
    earlier(tmp_path)
    give_to(owner, tmp_path)
    assert_given(tmp_path, owner)
    assert found_by_sqlite(tmp_path) == CONTENT


def test_it_is_whole_whenever_it_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For an earlier release as well; the next call ends it."""
    number, all_done = 0, False
    while not all_done:
        state = tmp_path / str(number)
        state.mkdir()
        earlier(state)
        with cut_off_at(number, monkeypatch) as done, contextlib.suppress(CutOff):
            give_to(USER, state)
        all_done = len(done) == number
        assert found_by_sqlite(state) == CONTENT, done
        give_to(USER, state)
        assert_given(state, USER)
        assert found_by_sqlite(state) == CONTENT, done
        number += 1
    assert number > len(CHANGES)


def test_a_cut_off_move_and_then_an_earlier_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which has written another log beside the database that counts: the names made before are stale."""
    earlier(tmp_path)
    with cut_off_at(9, monkeypatch) as done, contextlib.suppress(CutOff):
        give_to(USER, tmp_path)
    assert done.count("link") == len(CONTENT)
    assert not (tmp_path / DATABASE).is_symlink()
    (tmp_path / BESIDE[0]).unlink()
    (tmp_path / BESIDE[0]).write_bytes(b"another log")
    give_to(USER, tmp_path)
    assert found_by_sqlite(tmp_path) == CONTENT | {BESIDE[0]: b"another log"}


def test_what_root_has_written_since_is_given_too(tmp_path: Path) -> None:
    """As an earlier release does, which runs Temporal as root; and the other way round."""
    give_to(USER, tmp_path)
    for name, content in CONTENT.items():
        (tmp_path / FOLDER / name).write_bytes(content)
    give_to(USER, tmp_path)
    assert_given(tmp_path, USER)
    give_to(ROOT, tmp_path)
    assert_given(tmp_path, ROOT)


def test_what_is_right_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each restart."""
    earlier(tmp_path)
    give_to(USER, tmp_path)
    with cut_off_at(1000, monkeypatch) as done:
        give_to(USER, tmp_path)
    assert set(done) == {"mkdir", "unlink"}, "which find that there is nothing to do"


def symbolic(place: Path, secret: Path) -> None:
    """A symbolic link to a file of root's."""
    place.symlink_to(secret)


def hard(place: Path, secret: Path) -> None:
    """A second name of a file of root's, where the kernel lets a user make one (fs.protected_hardlinks)."""
    place.hardlink_to(secret)


def pipe(place: Path, _: Path) -> None:
    """What waits for a reader for ever."""
    os.mkfifo(place)


def folder(place: Path, _: Path) -> None:
    """A folder."""
    place.mkdir()


@pytest.mark.parametrize("name", list(CONTENT))
@pytest.mark.parametrize("trap", [symbolic, hard, pipe, folder])
@pytest.mark.parametrize("owner", [pytest.param(USER, id="to-the-user"), pytest.param(ROOT, id="to-root")])
def test_a_trap_is_refused_by_name(owner: Owner, trap: Callable[[Path, Path], None], name: str, tmp_path: Path) -> None:
    """Nothing outside the folder gets another owner or mode, and the folder stays root's until somebody has looked."""
    state, secret = tmp_path / "state", tmp_path / "secret"
    state.mkdir()
    secret.write_text("of root's")
    secret.chmod(0o640)
    give_to(USER, state)
    (state / FOLDER / name).unlink(missing_ok=True)
    trap(state / FOLDER / name, secret)
    before = secret.stat()
    os.chown(state / FOLDER, NOBODY, 0)  # something is to be changed
    with pytest.raises(DatabaseRefused, match=rf"{FOLDER}/{name} is a link, or has another name elsewhere"):
        give_to(owner, state)
    after = secret.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    assert (state / FOLDER).stat().st_uid == 0


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """Only root can have made it; where it leads is not given away."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / FOLDER).symlink_to("elsewhere")
    with pytest.raises(OSError, match=FOLDER):
        give_to(USER, tmp_path)
    assert (tmp_path / "elsewhere").stat().st_uid == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda state: (state / DATABASE).symlink_to("/disk/t.db"), "neither a database", id="a-link"),
        pytest.param(lambda state: (state / DATABASE).mkdir(), "neither a database", id="a-folder"),
        pytest.param(earlier, "there are two databases", id="another-database"),
    ],
)
def test_what_an_operator_must_decide_is_told(make: Callable[[Path], None], words: str, tmp_path: Path) -> None:
    """Nothing is removed or replaced."""
    give_to(USER, tmp_path)
    (tmp_path / FOLDER / DATABASE).write_bytes(b"one")
    (tmp_path / DATABASE).unlink()
    make(tmp_path)
    with pytest.raises(DatabaseRefused, match=words):
        give_to(USER, tmp_path)
    assert (tmp_path / FOLDER / DATABASE).read_bytes() == b"one"
