"""Does a volume of the node's own files change all at once, whenever the writer is killed? (atomic_writer_test.go)"""

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from activities.files.atomic_writer import InvalidPath, ProjectedFile, checked_path, write

KILLED = 77
CALLS = ("mkdir", "open", "fchmod", "fchown", "chown", "chmod", "symlink", "rename", "unlink", "rmdir", "listdir")
"""Everything through which the writer and what it uses change a folder (pathlib's verbs end in these, too)."""


def files(mode: int = 0o644, **contents: str) -> dict[str, ProjectedFile]:
    """Build files; two underscores are a slash."""
    return {name.replace("__", "/"): ProjectedFile(text.encode(), mode) for name, text in contents.items()}


def seen(directory: Path) -> dict[str, str]:
    """Read a volume as its users do: through what they see."""
    found = {}
    for place, folders, names in os.walk(directory, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith("..")]
        for name in names:
            if not name.startswith(".."):
                path = Path(place) / name
                found[str(path.relative_to(directory))] = path.read_text()
    return found


def hidden(directory: Path) -> list[str]:
    """Name what users do not see."""
    return sorted(path.name for path in directory.iterdir() if path.name.startswith(".."))


def assert_tidy(directory: Path) -> None:
    """One folder, one link to it, and every link leads somewhere."""
    folder, data = sorted(hidden(directory), key=lambda name: name == "..data")
    assert (data, str((directory / "..data").readlink())) == ("..data", folder)
    assert all(path.exists() for path in directory.iterdir())


@pytest.mark.parametrize(
    ("path", "clean"),
    [
        pytest.param("i/am/well/behaved.txt", "i/am/well/behaved.txt", id="a-path"),
        pytest.param("keepyourheaddownandfollowtherules.txt", "keepyourheaddownandfollowtherules.txt", id="a-name"),
        pytest.param("a" * 255, "a" * 255, id="the-longest-name"),
        pytest.param("/".join(["b" * 255] * 16), "/".join(["b" * 255] * 16), id="the-longest-path"),
        pytest.param("this//is/./unclean", "this/is/unclean", id="what-is-not-clean-is-cleaned"),
        pytest.param("a..b/.c", "a..b/.c", id="dots-inside"),
        pytest.param("a/..b", "a/..b", id="two-dots-further-down"),
    ],
)
def test_paths_that_are_taken(path: str, clean: str) -> None:
    """As the kubelet takes them."""
    assert checked_path(path) == clean


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param("", "must not be empty", id="empty"),
        pytest.param("/dev/null", "must be relative path", id="absolute"),
        pytest.param("..sneaky.txt", "must not start with '..'", id="two-dots-first"),
        pytest.param("./..sneaky.txt", "must not start with '..'", id="two-dots-first-when-cleaned"),
        pytest.param("..data", "must not start with '..'", id="our-own-link"),
        pytest.param("hello/there/../../../etc/passwd", "must not contain '..'", id="steps-back"),
        pytest.param("..", "must not contain '..'", id="back"),
        pytest.param("b" * 256, "filenames must be less than", id="a-long-name"),
        pytest.param("ü" * 128, "filenames must be less than", id="a-long-name-in-bytes"),
        pytest.param("a/" * 2049, "must be less than or equal to 4096", id="a-long-path"),
        pytest.param(".", "names no file", id="the-volume-itself"),
        pytest.param("a\0b", "names no file", id="a-nul"),
        pytest.param("kept/below", "kept/below lies below kept, a file", id="below-a-file"),
    ],
)
def test_paths_that_are_refused_before_anything_is_written(tmp_path: Path, path: str, words: str) -> None:
    """One of them is enough, and the volume stays as it is."""
    write(tmp_path, files(kept="1"))
    with pytest.raises(InvalidPath, match=words):
        write(tmp_path, files(kept="2") | {path: ProjectedFile(b"x", 0o644)})
    assert seen(tmp_path) == {"kept": "1"}
    assert_tidy(tmp_path)


def test_what_users_see(tmp_path: Path) -> None:
    """Links through `..data`, of a path with folders one for the first of them; modes whatever the umask."""
    before = os.umask(0o077)
    try:
        assert write(tmp_path, files(0o444, plain="a", sub__dir__deep="b", sub__other="c") | files(0o751, tool="d"))
    finally:
        os.umask(before)
    assert seen(tmp_path) == {"plain": "a", "sub/dir/deep": "b", "sub/other": "c", "tool": "d"}
    links = {path.name: str(path.readlink()) for path in tmp_path.iterdir() if not path.name.startswith("..")}
    assert links == {name: f"..data/{name}" for name in ("plain", "sub", "tool")}
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "sub", "sub/dir", "tool")}
    assert modes == {"plain": 0o444, "sub": 0o755, "sub/dir": 0o755, "tool": 0o751}
    assert stat.S_IMODE((tmp_path / "..data/").stat().st_mode) == 0o755
    assert_tidy(tmp_path)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(files(a="1", b="2"), files(a="1", b="3"), id="a-value"),
        pytest.param(files(a="1"), files(a="1", b__c="2"), id="one-more-in-a-folder"),
        pytest.param(files(a="1", b__c="2", b__d="3"), files(a="1", b__d="3"), id="one-less-in-a-folder"),
        pytest.param(files(a="1", b="2"), files(b="2"), id="one-less"),
        pytest.param(files(a="1", b__c="2"), files(x__y__z="3"), id="others-altogether"),
        pytest.param(files(a="1"), files(a__b="1"), id="a-file-becomes-a-folder"),
        pytest.param(files(a__b="1"), files(a="1"), id="a-folder-becomes-a-file"),
        pytest.param(files(a="1"), {}, id="none-any-more"),
        pytest.param({}, files(a="1"), id="the-first"),
        pytest.param(files(a="x" * 100_000), files(a="y" * 100_000), id="large"),
    ],
)
def test_an_update(tmp_path: Path, first: dict[str, ProjectedFile], then: dict[str, ProjectedFile]) -> None:
    """The volume holds what it should and nothing else; a reader of the old file can read it to its end."""
    write(tmp_path, first)
    opened = [(tmp_path / path).open() for path in first]
    assert write(tmp_path, then)
    assert seen(tmp_path) == {path: content.data.decode() for path, content in then.items()}
    assert_tidy(tmp_path)
    for file, content in zip(opened, first.values(), strict=True):
        assert file.read() == content.data.decode()
        file.close()


def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    """Watchers of the volume see no event; a missing link is created."""
    write(tmp_path, files(a="1", b__c="2"))
    before = (hidden(tmp_path), (tmp_path / "a").stat())
    (tmp_path / "b").unlink()
    assert not write(tmp_path, files(a="1", b__c="2"))
    assert (hidden(tmp_path), (tmp_path / "a").stat()) == before
    assert seen(tmp_path) == {"a": "1", "b/c": "2"}


def test_what_is_mounted_inside_a_volume_stays(tmp_path: Path) -> None:
    """A folder for another volume's mount is not ours, nor is a link that leads elsewhere."""
    (tmp_path / "nested" / "deep").mkdir(parents=True)
    (tmp_path / "elsewhere").symlink_to("/dev/null")
    write(tmp_path, files(a="1", nested__x="2"))
    write(tmp_path, files(b="1"))
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("..")) == [
        *("b", "elsewhere", "nested")
    ]
    assert (tmp_path / "nested/deep").is_dir()


def test_the_pods_group_may_read_all(tmp_path: Path) -> None:
    """fsGroup: owner bits stay, the group reads files and enters folders, and what is made later is its, too."""
    tmp_path.chmod(0o777)
    write(tmp_path, files(0o400, a="1", b__c="2"), group=4242)
    for name, mode in {".": 0o2777, "a": 0o440, "b": 0o2755, "b/c": 0o440, "..data/": 0o2755}.items():
        found = (tmp_path / name).stat()
        assert (name, found.st_gid, oct(stat.S_IMODE(found.st_mode))) == (name, 4242, oct(mode))


def test_a_file_may_have_an_owner_of_its_own(tmp_path: Path) -> None:
    """A token is its user's, and the group's too where there is one; the files beside it stay root's."""
    write(tmp_path, {"token": ProjectedFile(b"t", 0o600, 1000), "ca.crt": ProjectedFile(b"c", 0o644)})
    token, beside = (tmp_path / "token").stat(), (tmp_path / "ca.crt").stat()
    assert (token.st_uid, token.st_gid, token.st_mode & 0o777) == (1000, 0, 0o600)
    assert (beside.st_uid, beside.st_mode & 0o777) == (0, 0o644)


def test_what_is_no_file_of_ours_is_replaced(tmp_path: Path) -> None:
    """A link, a FIFO or a folder in the place of a file is not read, and not waited for."""
    write(tmp_path, files(a="1", b="2", c="3"))
    data = tmp_path / (tmp_path / "..data").readlink()
    for name in "abc":
        (data / name).unlink()
    (data / "a").symlink_to("/etc/passwd")
    os.mkfifo(data / "b")
    (data / "c").mkdir()
    assert write(tmp_path, files(a="1", b="2", c="3"))
    assert seen(tmp_path) == {"a": "1", "b": "2", "c": "3"}


@pytest.mark.parametrize("target", ["..gone", "/etc", "../outside", "nested", "."])
def test_a_data_link_that_leads_elsewhere_is_set_right(tmp_path: Path, target: str) -> None:
    """Nothing behind it is read or removed."""
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    (volume / "nested").mkdir(parents=True)
    outside.mkdir()
    (outside / "kept").touch()
    (volume / "..data").symlink_to(target)
    write(volume, files(a="1"))
    assert seen(volume) == {"a": "1"}
    assert (outside / "kept").exists()
    assert_tidy(volume)


OLD, NEW = (
    files(same="0", a="old", gone="x", dir__b="old"),
    files(same="0", a="new", dir__b="new", dir__c="n", more="m"),
)
TEXTS = [{path: content.data.decode() for path, content in one.items()} for one in (OLD, NEW)]


@contextmanager
def counted(act: Callable[[int, str], None], *, after: bool) -> Iterator[None]:
    """Let `act` know of every call that changes something, by its number, before it happens or after."""
    real: dict[str, Any] = {name: getattr(os, name) for name in CALLS}
    count = 0

    def wrap(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            number = count
            if not after:
                act(number, name)
            try:
                return real[name](*args, **kwargs)
            finally:
                if after:
                    act(number, name)

        return call

    try:
        for name in CALLS:
            setattr(os, name, wrap(name))
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def steps_of_an_update(directory: Path, *, first: bool) -> int:
    """Count the calls that one update makes."""
    numbers: list[int] = []
    with counted(lambda number, _: numbers.append(number), after=False):
        update(directory, first=first)
    return len(numbers)


def prepare(directory: Path, *, first: bool) -> None:
    """Make a volume as it stands before the update."""
    directory.mkdir()
    if not first:
        write(directory, OLD)


def update(directory: Path, *, first: bool) -> None:
    """Write it."""
    if first and not directory.exists():
        directory.mkdir()
    write(directory, NEW, group=0)


def exit_code_of(volume: Path, step: int, *, first: bool, after: bool) -> int:
    """Update a volume in a process that ends without a word before (or after) one of its steps."""

    def end(number: int, _: str) -> None:
        if number == step:
            os._exit(KILLED)

    if (child := os.fork()) == 0:
        with counted(end, after=after):
            update(volume, first=first)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("first", [False, True], ids=["an-update", "the-first-write"])
def test_a_kill_at_any_step_leaves_old_or_new_and_the_next_write_leaves_nothing_behind(
    tmp_path: Path, first: bool, after: bool
) -> None:
    """The process is gone in the middle of it, without a chance to clean up."""
    prepare(tmp_path / "counted", first=first)
    steps = steps_of_an_update(tmp_path / "counted", first=first)
    assert steps > 15
    for number in range(1, steps + 1):
        volume = tmp_path / str(number)
        prepare(volume, first=first)
        assert exit_code_of(volume, number, first=first, after=after) == KILLED
        texts = {path: content for path, content in through_data(volume).items() if content}
        assert texts in ([{}] if first else [TEXTS[0]]) + [TEXTS[1]], f"step {number}"
        update(volume, first=first)
        assert seen(volume) == TEXTS[1]
        assert_tidy(volume)


@pytest.mark.parametrize("first", [False, True], ids=["an-update", "the-first-write"])
def test_a_failure_at_any_step_is_told_or_mended_and_the_next_write_is_right(tmp_path: Path, first: bool) -> None:
    """A full disk, once, anywhere."""
    prepare(tmp_path / "counted", first=first)
    steps = steps_of_an_update(tmp_path / "counted", first=first)
    for number in range(1, steps + 1):
        volume = tmp_path / str(number)
        prepare(volume, first=first)

        def fail(at: int, name: str, wanted: int = number) -> None:
            if at == wanted:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

        told = False
        with counted(fail, after=False):
            try:
                update(volume, first=first)
            except OSError as error:
                told = error.errno == errno.ENOSPC
        assert told or seen(volume) == TEXTS[1], f"step {number}"
        texts = {path: content for path, content in through_data(volume).items() if content}
        assert texts in ([{}] if first else [TEXTS[0]]) + [TEXTS[1]], f"step {number}"
        write(volume, NEW)
        assert seen(volume) == TEXTS[1]
        assert_tidy(volume)


def through_data(directory: Path) -> dict[str, str]:
    """Read what a program reads that opened `..data` first."""
    data = directory / "..data"
    if not data.exists():
        return {}
    return {str(path.relative_to(data)): path.read_text() for path in data.rglob("*") if path.is_file()}


def test_readers_never_see_a_mixture(tmp_path: Path) -> None:
    """A program that opens the folder and reads two files of it has two of the same write, 500 writes long."""
    write(tmp_path, files(a="0", b="0"))
    mixtures: list[tuple[str, str]] = []
    reads = 0
    done = threading.Event()

    def read() -> None:
        nonlocal reads
        while not done.is_set():
            try:
                pair = pair_of(tmp_path / "..data")
            except FileNotFoundError:  # between two steps of its own a whole write passed: it opens the next one
                continue
            reads += 1
            if pair[0] != pair[1]:
                mixtures.append(pair)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(500):
        write(tmp_path, files(a=str(number), b=str(number)))
    done.set()
    reader.join()
    assert reads
    assert mixtures == []


def pair_of(path: Path) -> tuple[str, str]:
    """Open a folder, and read two files of what was opened."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        first, second = (os.open(name, os.O_RDONLY, dir_fd=folder) for name in "ab")
        with os.fdopen(first) as one, os.fdopen(second) as other:
            return one.read(), other.read()
    finally:
        os.close(folder)


def test_no_content_is_shown() -> None:
    """A file's content may be a secret."""
    assert "hunter2" not in repr(ProjectedFile(b"hunter2", 0o600))
