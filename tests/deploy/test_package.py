"""Does the wheel have what an installed tempolet needs beside its Python modules?"""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from deploy.manual import BASH, FISH, PAGE, ZSH
from deploy.wheel import build_wheel

CHECKOUT: Final = Path(__file__).parents[2]
UNITS: Final = CHECKOUT / "deploy" / "systemd"


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """Build the wheel and read its files."""
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_has_the_units(content: Mapping[str, bytes]) -> None:
    """Files, not links, with the bytes of deploy/systemd, for `tempolet join`."""
    found = {name: data for name, data in content.items() if name.startswith("worker/joining/units/")}
    assert found == {
        f"worker/joining/units/{one.name}": one.read_bytes()
        for one in UNITS.iterdir()
        if one.suffix in (".service", ".conf")
    }


@pytest.mark.parametrize(
    ("name", "source"),
    [
        pytest.param("worker/standalone/examples/hello.yaml", "examples/hello.yaml", id="hello-of-up"),
        pytest.param(
            "worker/standalone/parts/requirements-temporal.txt", "requirements-temporal.txt", id="the-pin-of-temporal"
        ),
    ],
)
def test_the_wheel_has_what_is_linked(content: Mapping[str, bytes], name: str, source: str) -> None:
    """With the bytes of its only source in the checkout."""
    assert content[name] == (CHECKOUT / source).read_bytes()


def test_the_wheel_has_no_other_top_level_names(content: Mapping[str, bytes]) -> None:
    """They would be imported by whatever else is in the environment."""
    tops = {name.partition("/")[0] for name in content if ".dist-info/" not in name and ".data/" not in name}
    assert tops == {"proto", "workflows", "activities", "worker"}


@pytest.mark.parametrize("name", [PAGE, BASH, ZSH, FISH])
def test_the_wheel_has_the_manual_page_and_the_completions(content: Mapping[str, bytes], name: str) -> None:
    """Where pip puts them below the environment's prefix."""
    (found,) = (data for path, data in content.items() if path.endswith(f".data/data/{name}"))
    assert b"tempolet" in found
