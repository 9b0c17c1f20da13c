"""Marks that say to which node a bridge, a cgroup and a state folder belong, on these themselves.

`tempolet up` claims them by name before anything uses them, and `tempolet down` removes only what carries its own node's
mark: a folder that was mistyped must not lead to another node's pods. A node is named by its run folder. The bridge's
mark is its alias (`ip link` shows it). It has the pods' subnet, too, because rules of host ports are known by their
addresses. A cgroup's mark is an extended attribute, a state folder's a file.
"""

import contextlib
import ipaddress
import os
from pathlib import Path
from typing import Final, NamedTuple

from activities.files.atomic_files import write_atomically
from worker.standalone.machine import leftovers, links
from worker.standalone.machine.process import Supervised

_WORDS: Final = ("tempolet node at ", ", pods ")
_ATTRIBUTE: Final = "trusted.tempolet.owner"
"""Of root's own name space: whoever is allowed to write into the cgroup cannot change it."""
_FILE: Final = "run-folder"
_CPUSET: Final = "cpuset"
"""On cgroup v1 a cgroup made by hand has no CPUs; the runtime makes it properly."""


class TakenByAnother(Exception):
    """A bridge, subnet, cgroup or state folder is not this node's; the message says whose it is and what to do."""


class BridgeMark(NamedTuple):
    """Whose a bridge is: the run folder of its node, and its pods' subnet."""

    owner: str
    subnet: str


def bridge_mark(name: str) -> BridgeMark | None:
    """Read the mark of a bridge; None if it has none, or does not exist."""
    with contextlib.suppress(OSError):
        start, middle = _WORDS
        words = (links.LINKS / name / "ifalias").read_text().strip()
        owner, found, subnet = words.removeprefix(start).rpartition(middle)
        if words.startswith(start) and found:
            return BridgeMark(owner, subnet)
    return None


def mark_bridge(name: str, owner: str, subnet: str) -> None:
    """Mark an existing bridge as a node's. Raises OSError."""
    start, middle = _WORDS
    (links.LINKS / name / "ifalias").write_text(f"{start}{owner}{middle}{subnet}")


def cgroup_owner(cgroup: str) -> str | None:
    """Read whose a cgroup is; None if it has no mark, or does not exist."""
    for directory in leftovers.cgroup_directories(cgroup):
        with contextlib.suppress(OSError):
            return os.getxattr(directory, _ATTRIBUTE).decode()
    return None


def mark_cgroup(cgroup: str, owner: str) -> None:
    """Mark a cgroup as a node's, where the kernel keeps such marks."""
    for directory in leftovers.cgroup_directories(cgroup):
        with contextlib.suppress(OSError):
            os.setxattr(directory, _ATTRIBUTE, owner.encode())


def refuse_state_of_another(state_dir: Path, owner: str) -> None:
    """Raise TakenByAnother if a state folder is a living node's that has another run folder."""
    with contextlib.suppress(OSError):
        found = (state_dir / _FILE).read_text().strip()
        _refuse(f"state folder {state_dir}", found, owner, "--state-dir", in_use=False)


def claim_state(state_dir: Path, owner: str) -> None:
    """Mark a state folder as a node's; it is created. Raises TakenByAnother, OSError."""
    refuse_state_of_another(state_dir, owner)
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o711)
    write_atomically(state_dir / _FILE, f"{owner}\n".encode(), synced=False)


def claim_bridge(name: str, owner: str, subnet: str) -> None:
    """Create a node's bridge, or take over its own or a dead node's. Raises TakenByAnother, OSError."""
    _refuse_used_subnet(name, owner, subnet)
    if not links.create_bridge(name):
        mark = bridge_mark(name)
        if mark is None:
            raise TakenByAnother(
                f"a network device {name} exists that no node has marked: choose another name with --bridge, "
                "or run `tempolet down` if this node has left it"
            )
        _refuse(f"bridge {name}", mark.owner, owner, "--bridge", in_use=bool(links.links_on_bridge(name)))
    mark_bridge(name, owner, subnet)


def claim_cgroup(cgroup: str, owner: str) -> None:
    """Create a node's cgroup, or take over its own or a dead node's. Raises TakenByAnother, OSError."""
    found, in_use = cgroup_owner(cgroup), bool(leftovers.processes_in_cgroup(cgroup))
    if found is not None:
        _refuse(f"cgroup {cgroup}", found, owner, "--cgroup-root", in_use=in_use)
    elif in_use:
        raise TakenByAnother(
            f"cgroup {cgroup} has processes and no node's mark: choose another with --cgroup-root, "
            "or run `tempolet down` if this node has left it"
        )
    places = [place for place in leftovers.cgroup_places(cgroup) if _CPUSET not in _hierarchy(place).split(",")]
    for place in places[:1]:
        place.mkdir(parents=True, exist_ok=True)
    mark_cgroup(cgroup, owner)


def _refuse_used_subnet(name: str, owner: str, subnet: str) -> None:
    wanted = ipaddress.ip_network(subnet)
    for link in sorted(path.name for path in links.LINKS.iterdir()):
        mark = bridge_mark(link)
        if link != name and mark and wanted.overlaps(ipaddress.ip_network(mark.subnet)):
            what = f"subnet {mark.subnet} of bridge {link}"
            _refuse(what, mark.owner, owner, "--pod-cidr", in_use=bool(links.links_on_bridge(link)))


def _refuse(what: str, found: str, owner: str, flag: str, *, in_use: bool) -> None:
    """Raise TakenByAnother for what belongs to another node, unless nothing of that node is alive."""
    if found != owner and (in_use or _is_alive(Path(found))):
        raise TakenByAnother(
            f"{what} belongs to the node at {found}: choose another with {flag}, "
            f"or end that node with `tempolet down --run-dir {found}`"
        )


def _hierarchy(place: Path) -> str:
    return place.relative_to(leftovers.CGROUP_MOUNT).parts[0]


def _is_alive(run_dir: Path) -> bool:
    processes = [Supervised(path) for path in run_dir.glob("*.pid")]
    return any(process.running() for process in processes) or bool(leftovers.shims_of(run_dir / "containerd.sock"))
