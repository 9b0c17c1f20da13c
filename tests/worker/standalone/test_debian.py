"""Does the private apt find the machine's mirror, without using anything else of its configuration?"""

from pathlib import Path

import pytest

from worker.standalone.parts import debian
from worker.standalone.parts.debian import NotFetched, PrivateApt, Source, find_mirror, find_source, this_release


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        pytest.param(
            "sources.list", "deb http://mirror/debian bookworm main", Source("http://mirror/debian", ""), id="one-line"
        ),
        pytest.param(
            "sources.list",
            "deb [arch=amd64 signed-by=/k.gpg] http://mirror/debian/ bookworm main contrib",
            Source("http://mirror/debian/", "[arch=amd64 signed-by=/k.gpg]"),
            id="one-line-with-options",
        ),
        pytest.param("sources.list", "# deb http://mirror/debian bookworm main", None, id="commented-out"),
        pytest.param("sources.list", "deb-src http://mirror/debian bookworm main", None, id="sources-only"),
        pytest.param("sources.list", "deb http://mirror/debian bookworm contrib", None, id="without-main"),
        pytest.param("sources.list", "deb http://mirror/debian bookworm-updates main", None, id="another-suite"),
        pytest.param("sources.list", "deb", None, id="a-torn-line"),
        pytest.param(
            "sources.list.d/own.list", "deb http://m/d bookworm main", Source("http://m/d", ""), id="in-a-folder"
        ),
        pytest.param(
            "sources.list.d/debian.sources",
            "Types: deb deb-src\n# a comment\nURIs: http://m/d http://second/d\nSuites: bookworm bookworm-updates\n"
            "Components: main\nSigned-By: /k.gpg\n",
            Source("http://m/d", "[signed-by=/k.gpg]"),
            id="deb822",
        ),
        pytest.param(
            "sources.list.d/debian.sources",
            "Types: deb\nURIs: http://a\nSuites: other\nComponents: main\n\n"
            "Types: deb\nURIs: http://b\nSuites: bookworm\nComponents: main\n",
            Source("http://b", ""),
            id="deb822-second-paragraph",
        ),
        pytest.param(
            "sources.list.d/debian.sources",
            "Enabled: no\nTypes: deb\nURIs: http://a\nSuites: bookworm\nComponents: main\n",
            None,
            id="deb822-switched-off",
        ),
        pytest.param("sources.list.d/debian.sources", "", None, id="deb822-empty"),
    ],
)
def test_find_source(tmp_path: Path, file: str, text: str, found: Source | None) -> None:
    """Both of apt's formats are read, and only lines that give the suite's main."""
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert find_source("bookworm", tmp_path) == found


def test_a_mirror_that_is_not_there_is_named() -> None:
    """The operator learns which suite and where it was looked for."""
    with pytest.raises(NotFetched, match=r"no source of nosuchsuite main in .*sources\.list"):
        find_mirror("nosuchsuite")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('ID=fedora\nPRETTY_NAME="Fedora 44"\n', "this is Fedora 44", id="another-system"),
        pytest.param("ID=debian\n", "this is this system", id="a-debian-without-a-code-name"),
    ],
)
def test_only_debian_is_fetched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    """Elsewhere the message says to install what is missing."""
    (tmp_path / "os-release").write_text(text)
    monkeypatch.setattr(debian, "OS_RELEASE", tmp_path / "os-release")
    with pytest.raises(NotFetched, match=message):
        this_release()


def test_nothing_of_the_operators_apt_is_written_or_run(tmp_path: Path) -> None:
    """Lists, cache and locks are ours; the machine's hooks (apt.conf.d) are not read."""
    configuration = PrivateApt(tmp_path, "bookworm")._configuration()
    lines = dict(
        line.rstrip(";").split(" ", 1) for line in configuration.splitlines() if line.startswith(("Dir", "De"))
    )
    assert lines["Dir::State"] == f'"{tmp_path}"'
    assert lines["Dir::Cache"] == f'"{tmp_path}/cache"'
    assert lines["Dir::Etc::parts"] == '"/dev/null"'
    assert lines["Debug::NoLocking"] == '"true"'
    assert "Post-Invoke" not in configuration
