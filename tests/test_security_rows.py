"""Does every test that docs/security.md names exist?"""

import ast
import re
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
TEXT: Final = (TESTS.parent / "docs" / "security.md").read_text()
NAMED: Final = re.compile(r"`(?P<file>[\w/]+\.py|…)(?:::(?P<test>\w+))?`")


def defined_in(file: Path) -> set[str]:
    """Return the tests of a file; a file that is not there has none."""
    if not file.is_file():
        return set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {one.name for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, kinds)}


def missing(row: str) -> list[str]:
    """Return what a row of the table names and the tree does not have."""
    gone, file = [], ""
    for named in NAMED.finditer(row.rsplit("|", 2)[-2]):
        file = file if named["file"] == "…" else named["file"]
        tests = defined_in(TESTS / file)
        if not tests or (named["test"] and named["test"] not in tests):
            gone.append(f"{file}::{named['test']}")
    return gone


def test_every_row_names_tests_that_exist() -> None:
    """A test that was renamed or removed leaves no attack without its proof."""
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and "`" in line.rsplit("|", 2)[-2]]
    assert len(rows) > 50
    assert [gone for row in rows for gone in missing(row)] == []
