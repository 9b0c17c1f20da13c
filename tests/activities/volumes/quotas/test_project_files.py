"""Are the lines of /etc/projects and /etc/projid those that the kubelet writes, and are others' kept?"""

from collections.abc import Set

import pytest

from activities.volumes.quotas.project_files import (
    FIRST,
    NONE,
    NoProjectLeft,
    ProjectFiles,
    parse,
    written,
)

PROJECTS = "# This is a /etc/projects header\n1048578:/quota/d\n"
NAMES = "# This is a /etc/projid header\nxxxxxx:1048579\n"
"""The headers of the kubelet's test, with a folder and a name of others."""


def test_the_kubelets_own_steps() -> None:
    """The rows of quotaTestCases (pkg/volume/util/fsquota/quota_linux_test.go): add three folders, remove them in another order."""
    steps = [
        ("+/quota1/a", "1048577:/quota1/a\n", "volume1048577:1048577\n"),
        ("+/quota1/b", "1048577:/quota1/a\n1048580:/quota1/b\n", "volume1048577:1048577\nvolume1048580:1048580\n"),
        (
            "+/quota2/b",
            "1048577:/quota1/a\n1048580:/quota1/b\n1048581:/quota2/b\n",
            "volume1048577:1048577\nvolume1048580:1048580\nvolume1048581:1048581\n",
        ),
        ("-/quota1/b", "1048577:/quota1/a\n1048581:/quota2/b\n", "volume1048577:1048577\nvolume1048581:1048581\n"),
        ("-/quota1/a", "1048581:/quota2/b\n", "volume1048581:1048581\n"),
        ("-/quota1/a", "1048581:/quota2/b\n", "volume1048581:1048581\n"),
        ("-/quota2/b", "", ""),
    ]
    files = parse(PROJECTS, NAMES)
    for step, projects, names in steps:
        folder = step[1:]
        files = files.adding(folder, files.unused(_nothing)) if step[0] == "+" else files.without({folder})
        assert (written(files.projects), written(files.names)) == (PROJECTS + projects, NAMES + names), step


def _nothing(_: int) -> bool:
    return False


@pytest.mark.parametrize(
    ("folder", "project"),
    [
        pytest.param("/a", 7, id="its-line"),
        pytest.param("/a:b", 8, id="a-colon-in-its-path"),
        pytest.param("/twice", 9, id="the-first-of-two-lines"),
        pytest.param("/none", NONE, id="none"),
        pytest.param("/comment", NONE, id="a-comment"),
        pytest.param("/windows", 11, id="a-line-that-ends-with-carriage-return"),
        pytest.param("/odd\u2028name", 12, id="only-a-line-feed-ends-a-line"),
    ],
)
def test_id_of_a_folder(folder: str, project: int) -> None:
    """By its whole path."""
    text = "7:/a\n8:/a:b\n9:/twice\n10:/twice\n#5:/comment\nx:/none\n11:/windows\r\n12:/odd\u2028name"
    assert parse(text, "").id_of(folder) == project


@pytest.mark.parametrize(
    ("files", "in_use", "project"),
    [
        pytest.param(ProjectFiles(), set(), FIRST, id="the-first"),
        pytest.param(ProjectFiles(projects=(f"{FIRST}:/a",)), set(), FIRST + 1, id="a-folder-has-it"),
        pytest.param(ProjectFiles(names=(f"mine:{FIRST}",)), set(), FIRST + 1, id="a-name-has-it"),
        pytest.param(ProjectFiles(), {FIRST}, FIRST + 1, id="files-have-it"),
        pytest.param(ProjectFiles((f"{FIRST + 1}:/a",)), {FIRST}, FIRST + 2, id="both"),
        pytest.param(ProjectFiles(), set(range(FIRST, FIRST + 128)), FIRST + 128, id="the-last-that-is-tried"),
    ],
)
def test_an_unused_id(files: ProjectFiles, in_use: Set[int], project: int) -> None:
    """The lowest that nobody has."""
    assert files.unused(in_use.__contains__) == project


def test_no_unused_id_is_an_error() -> None:
    """After 129 in use; lines do not count as tries (findAvailableQuota)."""
    listed = ProjectFiles(tuple(f"{FIRST + one}:/{one}" for one in range(200)))
    tried = list[int]()

    def in_use(project: int) -> bool:
        tried.append(project)
        return True

    with pytest.raises(NoProjectLeft, match="cannot find available quota ID"):
        listed.unused(in_use)
    assert tried == list(range(FIRST + 200, FIRST + 329))


@pytest.mark.parametrize(
    ("before", "folders", "after"),
    [
        pytest.param(
            ProjectFiles(("7:/a", "7:/b"), ("mine:7",)), {"/a"}, ProjectFiles(("7:/b",), ("mine:7",)), id="a-shared-id"
        ),
        pytest.param(
            ProjectFiles(("7:/a", "7:/b"), ("mine:7",)), {"/a", "/b"}, ProjectFiles(), id="both-folders-of-an-id"
        ),
        pytest.param(
            ProjectFiles((), (f"volume{FIRST}:{FIRST}", "mine:8")),
            set(),
            ProjectFiles((), ("mine:8",)),
            id="a-name-whose-writer-was-killed-before-the-folder-was-written",
        ),
        pytest.param(ProjectFiles(("7:/a",)), {"/a"}, ProjectFiles(), id="a-folder-whose-name-is-gone-already"),
        pytest.param(ProjectFiles(("#", ""), ("", "#x:7")), {""}, ProjectFiles(("#", ""), ("", "#x:7")), id="comments"),
    ],
)
def test_without_folders(before: ProjectFiles, folders: Set[str], after: ProjectFiles) -> None:
    """An id without a folder loses its name."""
    assert before.without(folders) == after
