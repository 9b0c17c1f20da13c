"""Are folders small, without import cycles between them, and their READMEs short? `python -m tests.folders`, a part of `make lint`.

Imports of modules can be free of cycles while those of folders are not: one module of each folder imports the other folder.
A folder and its own subfolder that import each other are a cycle, too.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import grimp

PACKAGES: Final = ("proto", "workflows", "activities", "worker")
MOST: Final = 14
"""Modules in a folder; `__init__.py`, `conftest.py` and generated files do not count."""
LONGEST: Final = 60
"""Lines of a folder's README: what belongs here, what it may import, how to add one more. Depth goes into a file beside it."""
_NOT_COUNTED: Final = ("__init__.py", "conftest.py")
_GENERATED: Final = ("_pb2.py", "_pb2_grpc.py")
_NAMED: Final = 3
"""So many imports are named for each arrow of a circle."""

Arrows = Mapping[tuple[str, str], Sequence[tuple[str, str]]]
"""The imports between two folders: (importing folder, imported folder) to (module, module)."""


def main() -> int:
    """Print what is wrong; returns the exit code."""
    found = [
        *crowded(Path.cwd(), (*PACKAGES, "deploy", "tests")),
        *wordy(Path.cwd(), (*PACKAGES, "tests")),
        *circles(arrows(PACKAGES)),
    ]
    for fault in found:
        print(fault)
    return 1 if found else 0


def crowded(root: Path, packages: Sequence[str]) -> Iterator[str]:
    """Name every folder with too many modules."""
    for package in packages:
        for folder in sorted([root / package, *(one for one in (root / package).rglob("*") if one.is_dir())]):
            modules = [one for one in folder.glob("*.py") if is_counted(one.name)]
            if len(modules) > MOST:
                name = folder.relative_to(root)
                yield f"{name}: {len(modules)} modules, at most {MOST}: move those of one subject to a folder of their own"


def wordy(root: Path, packages: Sequence[str]) -> Iterator[str]:
    """Name every README that is too long."""
    for package in packages:
        for readme in sorted((root / package).rglob("README.md")):
            lines = len(readme.read_text().splitlines())
            if lines > LONGEST:
                yield f"{readme.relative_to(root)}: {lines} lines, at most {LONGEST}: move details to a file beside it"


def is_counted(name: str) -> bool:
    """Say whether a file counts as a module."""
    return name not in _NOT_COUNTED and not name.endswith(_GENERATED)


def arrows(packages: Sequence[str]) -> Arrows:
    """Gather the imports between folders."""
    first, *others = packages
    graph = grimp.build_graph(first, *others, cache_dir=None)
    folders = {one for one in graph.modules if graph.find_children(one)}

    def folder(module: str) -> str:
        return module if module in folders else module.rpartition(".")[0]

    found: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for module in sorted(graph.modules):
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            if folder(module) != folder(imported):
                found[folder(module), folder(imported)].append((module, imported))
    return found


def circles(imports: Arrows) -> Iterator[str]:
    """Describe every import cycle between folders."""
    for members in strongly_connected(imports):
        yield f"{' <-> '.join(members)}: these folders import each other; cut every arrow of one direction:"
        for (source, target), why in sorted(imports.items()):
            if source in members and target in members:
                named = ", ".join(f"{importer} imports {imported}" for importer, imported in why[:_NAMED])
                yield f"    {source} -> {target} ({len(why)}): {named}"


def strongly_connected(imports: Arrows) -> list[list[str]]:
    """List the strongly connected sets of folders."""
    targets: dict[str, set[str]] = defaultdict(set)
    for source, target in imports:
        targets[source].add(target)
    reached = {source: reachable(source, targets) for source in targets}
    sets = {
        frozenset(one for one in reached[source] if source in reached.get(one, ()))
        for source in targets
        if source in reached[source]
    }
    return sorted(sorted(one) for one in sets)


def reachable(start: str, targets: Mapping[str, set[str]]) -> set[str]:
    """Return the folders that a folder imports, directly or through others."""
    found: set[str] = set()
    left = [start]
    while left:
        new = targets.get(left.pop(), set()) - found
        found |= new
        left.extend(new)
    return found


if __name__ == "__main__":
    sys.exit(main())
