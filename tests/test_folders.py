"""Does the check of folders find import cycles and folders with too many modules, and nothing else?"""

from pathlib import Path

import pytest

from tests.folders import LONGEST, MOST, arrows, circles, crowded, wordy


def write(root: Path, files: dict[str, str]) -> None:
    """Write a tree of packages."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in {one.parent for one in root.rglob("*.py")} - {root}:
        (folder / "__init__.py").touch()


@pytest.mark.parametrize(
    ("package", "files", "members"),
    [
        pytest.param(
            "downward_only",
            {"pod/life.py": "from downward_only.facts import pod", "facts/pod.py": ""},
            None,
            id="one-way",
        ),
        pytest.param(
            "within_one",
            {"pod/a.py": "from within_one.pod import b", "pod/b.py": ""},
            None,
            id="within-one-folder",
        ),
        pytest.param(
            "both_ways",
            {
                "pod/life.py": "from both_ways.facts import pod",
                "facts/pod.py": "",
                "facts/node.py": "from both_ways.pod import card",
                "pod/card.py": "",
            },
            "both_ways.facts <-> both_ways.pod",
            id="two-folders-whose-modules-are-in-no-circle",
        ),
        pytest.param(
            "its_own_child",
            {
                "pod/life.py": "from its_own_child.pod.steps import start",
                "pod/key.py": "",
                "pod/steps/start.py": "from its_own_child.pod import key",
            },
            "its_own_child.pod <-> its_own_child.pod.steps",
            id="a-folder-and-its-own-subfolder",
        ),
        pytest.param(
            "in_three",
            {
                "a/one.py": "from in_three.b import two",
                "b/two.py": "from in_three.c import three",
                "c/three.py": "from in_three.a import four",
                "a/four.py": "",
                "d/five.py": "from in_three.a import one",
            },
            "in_three.a <-> in_three.b <-> in_three.c",
            id="three-folders-and-not-the-fourth-that-imports-them",
        ),
    ],
)
def test_circles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, files: dict[str, str], members: str | None
) -> None:
    """It names the folders of a cycle, and each import in it."""
    write(tmp_path, {f"{package}/{name}": text for name, text in files.items()})
    monkeypatch.syspath_prepend(tmp_path)
    found = [*circles(arrows((package,)))]
    assert [one.partition(":")[0] for one in found if not one.startswith(" ")] == ([members] if members else [])
    assert all(" imports " in one for one in found[1:])


@pytest.mark.parametrize(
    ("names", "is_crowded"),
    [
        pytest.param([f"m{one}.py" for one in range(MOST)], False, id="as-many-as-may-be"),
        pytest.param([f"m{one}.py" for one in range(MOST + 1)], True, id="one-more"),
        pytest.param([f"m{one}_pb2.py" for one in range(MOST + 1)], False, id="generated-ones-do-not-count"),
        pytest.param([*(f"m{one}.py" for one in range(MOST)), "conftest.py"], False, id="conftest-does-not-count"),
        pytest.param([f"m{one}.json" for one in range(MOST + 1)], False, id="no-modules"),
    ],
)
def test_crowded(tmp_path: Path, names: list[str], is_crowded: bool) -> None:
    """It names a folder with too many modules, at any depth."""
    write(tmp_path, {f"tree/pod/{name}": "" for name in names})
    found = [*crowded(tmp_path, ("tree",))]
    assert bool(found) is is_crowded
    assert not found or found[0].startswith(f"tree/pod: {MOST + 1} modules")


def test_a_long_readme_is_named(tmp_path: Path) -> None:
    """Its folder, its lines and what to do."""
    for folder, lines in (("short", LONGEST), ("long", LONGEST + 1)):
        (tmp_path / "pod" / folder).mkdir(parents=True)
        (tmp_path / "pod" / folder / "README.md").write_text("a line\n" * lines)
    [fault] = wordy(tmp_path, ("pod",))
    assert fault.startswith(f"pod/long/README.md: {LONGEST + 1} lines")
