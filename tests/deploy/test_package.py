"""Does the package, installed without a checkout, have what `tempolet join` installs?"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[2]
PARTS: Final = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "proto",
    "workflows",
    "activities",
    "worker",
    "deploy/systemd",
)


def test_the_wheel_has_the_units(tmp_path: Path) -> None:
    """Files, not links, with the bytes of deploy/systemd."""
    copy = tmp_path / "checkout"
    for part in PARTS:
        (copy / part).parent.mkdir(parents=True, exist_ok=True)
        if (CHECKOUT / part).is_dir():
            shutil.copytree(CHECKOUT / part, copy / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(CHECKOUT / part, copy / part)
    offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *offline, str(copy)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        found = {one: archive.read(one) for one in archive.namelist() if one.startswith("worker/joining/units/")}
    units = CHECKOUT / "deploy" / "systemd"
    assert found == {f"worker/joining/units/{one.name}": one.read_bytes() for one in units.glob("*.service")}
