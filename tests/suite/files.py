"""The test files of a checkout, and how long each took when it was last measured."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

DURATIONS: Final = Path(__file__).with_name("durations.json")


def find_test_files(root: Path, below: Sequence[str] = ("tests",)) -> list[str]:
    """Name every test file below some folders of a checkout, as pytest finds them; a file may be given, too."""
    found = {
        str(path.relative_to(root))
        for one in below
        for path in ([root / one] if (root / one).is_file() else (root / one).rglob("test_*.py"))
    }
    return sorted(found)


def read_durations(path: Path = DURATIONS) -> dict[str, float]:
    """Read the seconds of each file; nothing where there are none."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def write_durations(measured: Mapping[str, float], path: Path = DURATIONS) -> None:
    """Write down the seconds of each file, rounded, so that a diff shows what has changed."""
    lines = (f"{json.dumps(file)}: {round(seconds, 1)}" for file, seconds in sorted(measured.items()))
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
