"""Is the operator's program used if it is new enough, and is a missing one named?"""

from pathlib import Path

import pytest

from worker.standalone.machine import programs
from worker.standalone.machine.programs import (
    CNI_PLUGINS,
    MissingProgram,
    Program,
    find_cni_plugins,
    find_program,
    newest_cni_protocol,
    search_path,
    version_of,
)

TOOL = Program("tempolet-test-tool", (1, 7), "install tool 1.7")


def script(path: Path, output: str, code: int = 0) -> Path:
    """Write a program that prints something."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'EOF'\n{output}\nEOF\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("said", "version"),
    [
        pytest.param("containerd github.com/containerd/containerd v1.7.24 abcdef0", (1, 7, 24), id="containerd"),
        pytest.param("containerd github.com/containerd/containerd/v2 2.1.9+ds1 2.1.9+ds1-5", (2, 1, 9), id="debian"),
        pytest.param("runc version 1.1.5+ds1\ncommit: 1\nspec: 1.0.2-dev", (1, 1, 5), id="runc"),
        pytest.param("temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)", (1, 9, 1), id="temporal"),
        pytest.param("nftables v1.0.6 (Lester Gooch #5)", (1, 0, 6), id="nft"),
        pytest.param("no number here", (), id="nothing-readable"),
    ],
)
def test_versions_are_read_as_programs_say_them(tmp_path: Path, said: str, version: tuple[int, ...]) -> None:
    """The first number with a dot counts."""
    assert version_of(script(tmp_path / "tool", said)) == version


def test_a_program_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    """As a binary for another machine."""
    (tmp_path / "tool").write_bytes(b"\x7fELF\x00")
    (tmp_path / "tool").chmod(0o755)
    assert version_of(tmp_path / "tool") == ()


@pytest.mark.parametrize(
    ("on_path", "in_parts", "found"),
    [
        pytest.param("tool 1.7.0", "tool 2.0", "path", id="path-goes-first"),
        pytest.param("tool 1.6.20", "tool 2.0", "parts", id="too-old-on-path"),
        pytest.param(None, "tool 2.0", "parts", id="only-in-the-parts"),
        pytest.param("tool 1.10", None, "path", id="ten-is-more-than-seven"),
    ],
)
def test_where_a_program_is_taken_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_path: str | None, in_parts: str | None, found: str
) -> None:
    """PATH before the parts, unless what is there is too old."""
    for folder, said in (("path", on_path), ("parts/bin", in_parts)):
        (tmp_path / folder).mkdir(parents=True)
        if said:
            script(tmp_path / folder / TOOL.name, said)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    assert find_program(TOOL, tmp_path / "parts").relative_to(tmp_path).parts[0] == found


def test_what_is_missing_is_named_with_a_way_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, version wanted, what was found instead, what to do."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(MissingProgram, match=r"^tempolet-test-tool 1\.7 or newer is needed \(none found\): install"):
        find_program(TOOL, tmp_path / "parts")
    old = script(tmp_path / TOOL.name, "tool 1.6")
    with pytest.raises(MissingProgram, match=rf"\({old} is 1\.6\): install tool 1\.7$"):
        find_program(TOOL, tmp_path / "parts")


def test_cni_plugins_are_taken_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that lacks one of them is passed over."""
    system, parts = tmp_path / "system", tmp_path / "parts"
    monkeypatch.setattr(programs, "CNI_DIRECTORIES", (system,))
    script(system / "bridge", "")
    with pytest.raises(MissingProgram, match="bridge, host-local, loopback"):
        find_cni_plugins(parts)
    for plugin in CNI_PLUGINS:
        script(parts / "cni" / plugin, "")
    assert find_cni_plugins(parts) == parts / "cni"
    for plugin in CNI_PLUGINS:
        script(system / plugin, "")
    assert find_cni_plugins(parts) == system


@pytest.mark.parametrize(
    ("said", "protocol"),
    [
        pytest.param('{"supportedVersions": ["0.4.0", "1.0.0", "1.1.0"]}', (1, 1, 0), id="newest-of-several"),
        pytest.param('{"supportedVersions": []}', (), id="none"),
        pytest.param("usage: portmap", (), id="no-json"),
        pytest.param("{}", (), id="no-versions"),
    ],
)
def test_a_plugin_is_asked_for_its_protocol(tmp_path: Path, said: str, protocol: tuple[int, ...]) -> None:
    """By CNI's own VERSION command."""
    assert newest_cni_protocol(script(tmp_path / "portmap", said)) == protocol


def test_a_child_finds_our_programs_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the operator's own after them, each folder once."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin:/usr/bin")
    path = search_path(Path("/parts/bin/runc"), Path("/parts/bin/nft")).split(":")
    assert path == ["/parts/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"]


@pytest.mark.parametrize(
    ("variable", "packaged", "found"),
    [
        pytest.param("chosen", True, "chosen", id="the-operator-chooses"),
        pytest.param("", True, "packaged", id="a-package-brings-them"),
        pytest.param("", False, "machine", id="installed-by-hand"),
    ],
)
def test_where_the_parts_of_an_installed_tempolet_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, packaged: bool, found: str
) -> None:
    """Not in its environment, which an upgrade may make anew while they run."""
    monkeypatch.setenv(programs.PARTS_VARIABLE, str(tmp_path / variable) if variable else "")
    monkeypatch.setattr(
        programs, "__file__", str(tmp_path / "lib/python3/site-packages/worker/standalone/machine/x.py")
    )
    monkeypatch.setattr(programs, "PACKAGED_PARTS", tmp_path / "packaged")
    monkeypatch.setattr(programs, "MACHINE_PARTS", tmp_path / "machine")
    if packaged:
        (tmp_path / "packaged").mkdir()
    assert programs.default_parts_dir() == tmp_path / found


def test_a_checkout_has_its_own_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the folder that is not committed."""
    monkeypatch.delenv(programs.PARTS_VARIABLE, raising=False)
    assert programs.default_parts_dir() == Path(__file__).parents[3] / ".build/parts"
