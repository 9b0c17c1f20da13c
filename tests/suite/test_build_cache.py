"""Are built programs kept for every checkout, never seen by half, and not for ever?"""

import fcntl
import os
from pathlib import Path

import pytest

from tests.cluster import binaries
from tests.cluster.build_cache import BuildCache, cache_root, digest


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    """Return a cache with nothing in it."""
    return BuildCache(tmp_path, "kube", "1")


def program(path: Path) -> None:
    """Write something that can be run."""
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def built(cache: BuildCache, name: str = "kubectl") -> None:
    """Build a program."""
    with cache.building() as fresh:
        program(fresh / name)


def test_what_was_built_is_there_for_the_next_checkout(cache: BuildCache) -> None:
    """And only that."""
    built(cache)
    assert BuildCache(cache.root, "kube", "1").lacking(["kubectl", "kubelet"]) == ["kubelet"]
    built(cache, "kubelet")
    assert cache.lacking(["kubectl", "kubelet"]) == []


def test_another_version_is_another_folder(cache: BuildCache) -> None:
    """Whatever is there of the first."""
    built(cache)
    assert BuildCache(cache.root, "kube", "2").lacking(["kubectl"]) == ["kubectl"]


def test_nothing_is_seen_while_it_is_built(cache: BuildCache) -> None:
    """A reader finds nothing meanwhile; a second builder waits."""
    with cache.building() as fresh:
        program(fresh / "kubectl")
        assert cache.lacking(["kubectl"]) == ["kubectl"]
        with (cache.root / ".lock").open("w") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert cache.lacking(["kubectl"]) == []


def fails(cache: BuildCache) -> None:
    """Build one program, and fail at the next."""
    with cache.building() as fresh:
        program(fresh / "kubectl")
        raise binaries.NoBinaries("a compiler's words")


def test_nothing_stays_of_a_build_that_failed(cache: BuildCache) -> None:
    """Nor of one that was killed."""
    with pytest.raises(binaries.NoBinaries):
        fails(cache)
    assert cache.lacking(["kubectl"]) == ["kubectl"]
    killed = cache.root / ".building"
    killed.mkdir()
    program(killed / "half")
    built(cache)
    assert cache.lacking(["half"]) == ["half"]
    assert not killed.exists()


def test_old_versions_are_removed(cache: BuildCache) -> None:
    """All but the one that was used last beside the new one; others' folders are let alone."""
    for version in ("1", "2", "3"):
        built(BuildCache(cache.root, "kube", version))
    os.utime(cache.root / "kube-2", (1, 1))
    (cache.root / "other").mkdir()
    built(BuildCache(cache.root, "kube", "4"))
    assert {path.name for path in cache.root.iterdir()} == {".lock", "kube-3", "kube-4", "other"}


def test_a_digest_tells_what_programs_are_built_from(tmp_path: Path) -> None:
    """Names, contents and words."""
    one, other = tmp_path / "go.mod", tmp_path / "go.sum"
    one.write_text("a")
    other.write_text("b")
    seen = [digest([one, other]), digest([one]), digest([one, other], "go1.26")]
    one.write_text("c")
    seen.append(digest([one, other]))
    assert len(set(seen)) == len(seen)
    assert digest([one, other]) == digest([other, one])


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """$XDG_CACHE_HOME goes first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "tempolet"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root().name == "tempolet"


def test_a_folder_that_is_named_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And is not built into."""
    program(tmp_path / "kubectl")
    monkeypatch.setenv(binaries.VARIABLE, str(tmp_path))
    assert binaries.find_binaries(["kubectl"]) == tmp_path
    with pytest.raises(binaries.NoBinaries, match="which has no kubelet"):
        binaries.find_binaries(["kubelet"])
