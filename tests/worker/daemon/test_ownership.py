"""Does tempolet refuse to start if another package owns one of its import names?"""

import sys
import time
from pathlib import Path

import pytest

from worker.daemon.ownership import NameTaken, refuse_second_owners, second_owners


def install(folder: Path, name: str, *files: str) -> None:
    """Install a distribution as pip records it."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Add a folder of installed packages, behind all others."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "files", "taken"),
    [
        pytest.param("proto-plus", ("proto/__init__.py",), ["proto"], id="a-package-of-our-name"),
        pytest.param("many", ("worker/a.py", "workflows/b.py"), ["worker", "workflows"], id="two-of-them"),
        pytest.param("single", ("worker.py",), ["worker"], id="a-module-of-our-name"),
        pytest.param("protobuf", ("google/protobuf/a.py", "proto_x/a.py"), [], id="a-name-that-only-begins-alike"),
        pytest.param("deep", ("other/worker/a.py",), [], id="a-name-further-down"),
        pytest.param("tempolet", ("worker/__init__.py",), [], id="ourselves"),
    ],
)
def test_second_owners_are_found(packages: Path, name: str, files: tuple[str, ...], taken: list[str]) -> None:
    """By what their installers recorded."""
    install(packages, name, *files)
    assert list(second_owners()) == [(one, name) for one in taken]


def test_the_refusal_says_what_to_do(packages: Path) -> None:
    """The message names the import name, its owner, and a virtual environment as the remedy."""
    install(packages, "proto-plus", "proto/__init__.py")
    with pytest.raises(NameTaken, match=r"'proto' belongs to the installed package proto-plus.*virtual environment"):
        refuse_second_owners()


def test_a_folder_in_the_way_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `workflows` that comes first on the path would be imported instead of ours."""
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "workflows", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(NameTaken, match=r"'workflows' leads to .*workflows, not into"):
        refuse_second_owners()


def test_it_is_clean_here_and_quick() -> None:
    """No other package owns them in the tests' environment, and the check takes almost no time."""
    began = time.process_time()
    refuse_second_owners()
    assert time.process_time() - began < 0.5
