"""Builds tempolet's wheel from a copy of the checkout, and what is given away with it: `python -m deploy.wheel FOLDER`, or `make wheel`.

A build writes beside its sources, so it is given a copy; there the manual page and the completions are written, too. Runs in the checkout's
virtual environment, which has the pinned setuptools: nothing is fetched.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from deploy.manual import write_documents

CHECKOUT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = (
    *("pyproject.toml", "README.md", "LICENSE", "requirements-temporal.txt"),
    *("proto", "workflows", "activities", "worker", "deploy/systemd", "examples"),
)


WITH_IT: Final = ("requirements.txt", "deploy/install.sh")
SUMS: Final = "SHA256SUMS"


def main() -> int:
    """Build the release and print the wheel's path."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("folder", type=Path, help="where to put it")
    print(build_release(arguments.parse_args().folder))
    return 0


def build_release(into: Path) -> Path:
    """Put the wheel, the pinned requirements, install.sh and the digests of all three into a folder; returns the wheel."""
    for old in into.glob("tempolet-*.whl"):
        old.unlink()
    wheel = build_wheel(into)
    files = [wheel, *(Path(shutil.copy(CHECKOUT / name, into)) for name in WITH_IT)]
    sums = [f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n" for one in files]
    (into / SUMS).write_text("".join(sums))
    return wheel


def build_wheel(into: Path) -> Path:
    """Build the wheel of this checkout into a folder; raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        copy, built = Path(folder) / "checkout", Path(folder) / "built"
        for name in SOURCES:
            source, target = CHECKOUT / name, copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)
        write_documents(copy)
        options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(built)]
        subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(copy)], check=True)
        (wheel,) = built.glob("*.whl")
        into.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, into))


if __name__ == "__main__":
    sys.exit(main())
