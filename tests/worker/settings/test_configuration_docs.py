"""Does docs/configuration.md describe every flag, key and gate?"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest

from activities.machine.cgroup_names import CgroupDriver
from worker.settings.flags import node_parser
from worker.settings.kubelet.configuration import ACTED_ON, CLUSTER_KEYS
from worker.settings.kubelet.feature_gates import ACTED_ON as GATES
from worker.settings.kubelet.schema import load_schema
from worker.settings.tempolet_configuration import TempoletConfiguration

CHECKOUT = Path(__file__).resolve().parents[3]
TOLD = frozenset(re.findall(r"`([^`\s]+)`", (CHECKOUT / "docs" / "configuration.md").read_text()))
READ = re.compile(r'kubelet\["([\w.]+)"\]')


def own_keys(section: type, path: str = "") -> Iterable[str]:
    """Name every key of a TempoletConfiguration by its dotted path."""
    hints = get_type_hints(section)
    for one in fields(section):
        name = path + re.sub("_(.)", lambda letter: letter[1].upper(), one.name)
        kind = hints[one.name]
        yield from own_keys(kind, f"{name}.") if isinstance(kind, type) and is_dataclass(kind) else (name,)


def flags() -> set[str]:
    """Name every flag of the services."""
    actions = node_parser("tempolet node", "")._actions
    return {one.option_strings[0] for one in actions} - {"-h", "--v"} | {"-v"}


TO_TELL: Mapping[str, Iterable[str]] = {
    "flags": flags(),
    "keys of KubeletConfiguration": (ACTED_ON | CLUSTER_KEYS) - {"apiVersion", "kind"},
    "feature gates": GATES,
    "keys of our own": list(own_keys(TempoletConfiguration)),
}


@pytest.mark.parametrize("kind", TO_TELL)
def test_everything_that_can_be_set_is_told(kind: str) -> None:
    """By its whole name, in backquotes."""
    assert set(TO_TELL[kind]) - TOLD == set()


def test_help_names_every_cgroup_driver() -> None:
    """Each is a value that the flag takes."""
    (told,) = (one.help for one in node_parser("", "")._actions if "--cgroup-driver" in one.option_strings)
    assert [one for one in CgroupDriver if one not in (told or "")] == []


def test_no_key_is_told_that_does_nothing() -> None:
    """Every documented kubelet key has an effect, or is documented as having none."""
    keys = {name for name in TOLD if name.partition(".")[0] in load_schema().fields}
    assert keys - ACTED_ON - CLUSTER_KEYS == set()


def test_every_key_that_is_read_counts_as_acted_on() -> None:
    """Otherwise an operator who sets it is warned that it has no effect."""
    read = {key for file in (CHECKOUT / "worker").rglob("*.py") for key in READ.findall(file.read_text())}
    assert read - ACTED_ON - CLUSTER_KEYS == set()
