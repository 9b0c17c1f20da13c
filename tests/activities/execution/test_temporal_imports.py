"""Do activities and their interceptors ask Temporal's SDK for nothing about their attempt?"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ACTIVITIES = ROOT / "activities"
README = ACTIVITIES / "execution" / "README.md"
USERS = {"attempt.py", "attempts.py", "in_process.py", "unexpected.py"}
"""Modules of activities/execution that may use the SDK; the README names them."""
FREE = {"temporalio.activity", "temporalio.exceptions"}
"""What all others may use: `activity.defn` alone, and errors."""


def imported(tree: ast.Module) -> Iterator[str]:
    """Name what a module imports of Temporal's SDK; `from temporalio import activity` imports temporalio.activity."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.split(".")[0] == "temporalio")
        if isinstance(node, ast.ImportFrom) and node.module == "temporalio":
            yield from (f"temporalio.{one.name}" for one in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("temporalio."):
            yield node.module or ""


def used_of_activity(tree: ast.Module) -> set[str]:
    """Name the attributes of `activity` that a module uses."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "activity"
    }


def modules(folder: str) -> list[Path]:
    """List a folder's modules, at any depth."""
    found = sorted((ROOT / folder).rglob("*.py"))
    assert len(found) > 50
    return found


def test_activities_ask_the_sdk_for_nothing() -> None:
    """They run outside of Temporal, too."""
    for path in modules("activities"):
        if path.parent == README.parent and path.name in USERS:
            continue
        tree = ast.parse(path.read_text())
        assert set(imported(tree)) <= FREE, path
        assert "temporalio.activity" not in imported(tree) or used_of_activity(tree) == {"defn"}, path


def test_the_workers_interceptors_ask_it_for_nothing() -> None:
    """They wrap such activities."""
    for path in modules("worker"):
        assert "temporalio.activity" not in imported(ast.parse(path.read_text())), path


def test_the_readme_names_who_may_use_it() -> None:
    """In the line that says so."""
    [line] = [line for line in README.read_text().splitlines() if line.startswith("**May import**")]
    for name in USERS:
        assert f"`{name}`" in line


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from temporalio import activity, client", {"temporalio.activity", "temporalio.client"}),
        ("import temporalio.worker", {"temporalio.worker"}),
        ("from temporalio.client import Client", {"temporalio.client"}),
        ("def f():\n    from temporalio import activity", {"temporalio.activity"}),
        ("from temporaliox import activity", set()),
    ],
)
def test_each_form_of_an_import_is_seen(source: str, found: set[str]) -> None:
    """Also one inside a function."""
    assert set(imported(ast.parse(source))) == found
