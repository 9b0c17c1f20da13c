"""A disk with this checkout's product code, for the guest to mount at /opt/tempolet.

Made for each session: so a test runs the code as it is now, and the guest's image stays the same. It is compiled here, by the guest's
Python, because emulated processors would take a minute for it in each test.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

CONTENT: Final = (
    *("proto", "workflows", "activities", "worker", "deploy", "examples"),
    *(
        "pyproject.toml",
        "requirements.txt",
        "requirements-dev.txt",
        "requirements-temporal.txt",
        "README.md",
        "LICENSE",
    ),
)
LINKS: Final = {".venv": "/opt/tempolet-venv", ".build/parts": "/opt/tempolet-parts"}
"""What is in the guest's image, and where the checkout looks for it."""
COMPILED: Final = ("proto", "workflows", "activities", "worker", "deploy")


def copy(checkout: Path, target: Path) -> None:
    """Copy the product's code into a new folder."""
    target.mkdir()
    for name in CONTENT:
        source = checkout / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target / name)
    for name, to in LINKS.items():
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).symlink_to(to)


def compile_for_guest(folder: Path, python: Sequence[str], home: str = "/opt/tempolet") -> None:
    """Compile the product's code of a copy, as if it was at `home`."""
    command = [*python, "-IS", "-m", "compileall", "-q", "-s", str(folder), "-p", home]
    subprocess.run([*command, *(str(folder / name) for name in COMPILED)], check=True, capture_output=True)
