"""Is only what is missing fetched, and are parts that cannot be fetched named with a way to get them?"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from worker.standalone.machine.programs import Program
from worker.standalone.parts import fetch as fetching
from worker.standalone.parts.debian import NotFetched
from worker.standalone.parts.fetch import Part, PartsMissing, fetch

NOWHERE = Program("tempolet-test-nowhere", (1,), "install nowhere 1")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let no package be fetched; gives the names of those that were asked for."""
    names: list[str] = []

    class NoApt:
        def __init__(self, folder: Path, release: str) -> None:
            self.folder, self.release = folder, release

        def prepare(self, suites: Sequence[str]) -> None:
            names.extend(suites)

        def download(self, package: str, suite: str) -> list[Path]:
            names.append(f"{package}/{suite}")
            raise NotFetched("no network")

        def download_with_dependencies(self, package: str) -> list[Path]:
            return self.download(package, self.release)

    monkeypatch.setattr(fetching, "PrivateApt", NoApt)
    monkeypatch.setattr(fetching, "this_release", lambda: "bookworm")
    monkeypatch.setattr(fetching, "build_images", lambda *_: [])
    return names


def test_nothing_is_fetched_where_all_is_there(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not even a package list."""
    monkeypatch.setattr(fetching, "PARTS", (Part("coreutils"),))
    assert fetch(tmp_path) == f"{tmp_path} has all"
    assert asked == []


def test_what_is_needed_and_cannot_be_had_is_an_error(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each package once, with the reason and the hint; nothing is left of the try."""
    parts = (Part("one", (NOWHERE,), "forky"), Part("two", present=lambda _: False))
    monkeypatch.setattr(fetching, "PARTS", parts)
    with pytest.raises(PartsMissing) as raised:
        fetch(tmp_path)
    assert "one cannot be fetched (no network): install nowhere 1" in str(raised.value)
    assert "two cannot be fetched (no network)" in str(raised.value)
    assert asked == ["forky", "one/forky", "two/bookworm"]
    assert not (tmp_path / "apt").exists()


@pytest.mark.usefixtures("asked")
def test_what_is_optional_is_only_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The node comes up without host ports."""
    part = Part("nftables", (NOWHERE,), with_dependencies=True, optional="host ports")
    monkeypatch.setattr(fetching, "PARTS", (part,))
    assert "without nftables: no host ports (no network)" in fetch(tmp_path)


def test_an_old_python_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before anything is fetched."""
    monkeypatch.setattr(fetching, "OLDEST_PYTHON", (9, 9))
    with pytest.raises(PartsMissing, match=r"Python 9\.9 or newer is needed, this is 3\."):
        fetch(tmp_path)


def test_what_was_unpacked_is_written_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With its digest, as `sha256sum` writes it."""
    archive = tmp_path / "tool_1.2_amd64.deb"
    archive.write_bytes(b"a package")

    class OneArchive:
        def __init__(self, folder: Path, release: str) -> None:
            self.folder, self.release = folder, release

        def prepare(self, suites: Sequence[str]) -> None:
            assert suites == []

        def download(self, package: str, suite: str) -> list[Path]:
            assert (package, suite) == ("tool", "bookworm")
            return [archive]

    def unpack(found: Path, into: Path) -> None:
        assert found == archive
        into.mkdir(parents=True)

    monkeypatch.setattr(fetching, "PrivateApt", OneArchive)
    monkeypatch.setattr(fetching, "this_release", lambda: "bookworm")
    monkeypatch.setattr(fetching, "build_images", lambda *_: [])
    monkeypatch.setattr(fetching, "unpack", unpack)
    monkeypatch.setattr(fetching, "PARTS", (Part("tool", present=lambda parts: (parts / "root").exists()),))
    assert fetch(tmp_path / "parts").startswith("fetched tool into")
    digest = hashlib.sha256(b"a package").hexdigest()
    assert (tmp_path / "parts/fetched.sha256").read_text() == f"{digest}  tool_1.2_amd64.deb\n"
