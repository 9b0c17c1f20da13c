"""Refuses to start if another package owns one of our import names.

Our folders are imported as `proto`, `workflows`, `activities` and `worker`: names that other packages use too
(proto-plus installs a `proto`). In a virtual environment of its own tempolet is safe; in a shared one two packages
would overwrite each other's files and fail later in confusing ways. Checked at the start of the services. The result is
that of `importlib.metadata.packages_distributions()`, but several times faster, because only our names are looked for.
"""

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

OUR_DISTRIBUTION: Final = "tempolet"
OUR_NAMES: Final = ("proto", "workflows", "activities", "worker")
_RECORDED: Final = re.compile(rf"^({'|'.join(OUR_NAMES)})(?:/[^,\n]*\.py|\.py),", re.MULTILINE)


class NameTaken(Exception):
    """One of our import names belongs to another package as well."""


def refuse_second_owners() -> None:
    """Check the installed packages and the locations of our modules; raises NameTaken with what to do."""
    for name, owner in second_owners():
        raise NameTaken(
            f"the import name {name!r} belongs to the installed package {owner} as well; install tempolet into a "
            "virtual environment of its own (`make up` makes one)"
        )
    here = Path(__file__).resolve().parents[2]
    for name in OUR_NAMES:
        found = _location(name)
        if found is not None and found.parent != here:
            raise NameTaken(f"the import name {name!r} leads to {found}, not into {here}: fix PYTHONPATH")


def second_owners() -> Iterator[tuple[str, str]]:
    """Return each of our names that another distribution installs, with that distribution's name."""
    for distribution in importlib.metadata.distributions():
        recorded = distribution.read_text("RECORD") or ""
        names = {match[1] for match in _RECORDED.finditer(recorded)}
        if names and distribution.name != OUR_DISTRIBUTION:
            yield from ((name, distribution.name) for name in sorted(names))


def _location(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))).resolve()
