"""Gathers the fragments of `changes/` into CHANGELOG.md at a release: `make changelog`, which takes the version from pyproject.toml."""

import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[1]
KINDS: Final = ("Security", "Removed", "Changed", "Added", "Fixed")
_FRAGMENT: Final = re.compile(rf"({'|'.join(KINDS)}): (\S.*)", re.DOTALL)


class NoFragment(ValueError):
    """A file is no fragment; says which and what a fragment is."""


def main() -> int:
    """Write the changelog and remove the fragments; returns 1 if one is none."""
    files = fragments(CHECKOUT)
    try:
        found = read(files)
    except NoFragment as error:
        print(error, file=sys.stderr)
        return 1
    with (CHECKOUT / "pyproject.toml").open("rb") as project:
        version = tomllib.load(project)["project"]["version"]
    log = CHECKOUT / "CHANGELOG.md"
    log.write_text(with_release(log.read_text(), section(version, datetime.now(UTC).date(), found)))
    for one in files:
        one.unlink()
    return 0


def fragments(checkout: Path) -> list[Path]:
    """List the fragments."""
    return sorted(one for one in (checkout / "changes").iterdir() if one.name != "README.md")


def read(files: Iterable[Path]) -> Mapping[str, Sequence[str]]:
    """Return the paragraphs by kind; raises NoFragment."""
    found = defaultdict[str, list[str]](list)
    for one in files:
        words = " ".join(one.read_text().split()) if "\n\n" not in one.read_text() else ""
        matched = _FRAGMENT.fullmatch(words)
        if one.suffix != ".md" or matched is None:
            raise NoFragment(
                f"changes/{one.name}: a fragment is a .md file of one paragraph, `KIND: …`, of {', '.join(KINDS)}"
            )
        found[matched[1]].append(matched[2])
    return found


def section(version: str, day: date, found: Mapping[str, Sequence[str]]) -> str:
    """Return a release's section."""
    lines = [f"## {version} ({day.isoformat()})", ""]
    lines += [f"- **{kind}**: {words}" for kind in KINDS for words in found.get(kind, ())]
    return "\n".join(lines) + "\n"


def with_release(log: str, new: str) -> str:
    """Put a section before those of earlier releases."""
    head, mark, older = log.partition("\n## ")
    kept = head.rstrip().removesuffix(" No release was made yet.")
    return f"{kept}\n\n{new}{mark}{older}"


if __name__ == "__main__":
    sys.exit(main())
