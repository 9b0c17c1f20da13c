"""`python -m tests.bench`, run by `make bench`: measure, print the table, leave nothing behind.

Needs root and the parts of `make parts`. Progress goes to stderr, the table to stdout and, with --out, into a file.
"""

import argparse
import asyncio
import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.bench.cluster.membership import control_plane, membership
from tests.bench.cluster.observer import ApiObserver
from tests.bench.cluster.peers import ApiPeer, ClusterKubelet, ClusterTempolet
from tests.bench.cluster.race import ClusterPlan, Race
from tests.bench.cluster.race import report as report_cluster
from tests.bench.peers.kubelet import Kubelet, NoKubelet, find_kubelet
from tests.bench.peers.peer import Peer
from tests.bench.peers.place import Place
from tests.bench.peers.raw import RawCri
from tests.bench.peers.tempolet import Tempolet
from tests.bench.report import report
from tests.bench.session import ROWS, Plan, Session
from tests.cluster.binaries import NoBinaries
from tests.cluster.control_plane import ControlPlaneFailed
from worker.standalone.containerd import ContainerdFailed
from worker.standalone.machine.programs import MissingProgram
from worker.standalone.up import UpFailed

LOCK: Final = Path("/run/lock/tempolet-bench")
PEERS: Final = ("raw", "kubelet", "tempolet")
PLACES: Final = {one.name: Place(one.name, one.number) for one in (ClusterKubelet, ClusterTempolet)}
"""The peers that can be nodes of a cluster."""


class CannotRun(Exception):
    """The benchmark cannot run here; says why and what to do."""


NOT_UP: Final = (CannotRun, MissingProgram, ContainerdFailed, UpFailed, NoKubelet, NoBinaries, ControlPlaneFailed)
"""Errors that are reported in one line."""


def main() -> int:
    """Run it; returns 1 if it cannot run here."""
    options = _options()
    try:
        with _alone():
            text = _measure_cluster(options) if options.cluster else _measure(options)
    except NOT_UP as error:
        _progress(str(error))
        return 1
    except KeyboardInterrupt:
        _progress("stopped; nothing is left running")
        return 130
    print(text)
    if options.out:
        options.out.write_text(text + "\n")
    return 0


def _options() -> argparse.Namespace:
    plan = Plan()
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="How fast tempolet is beside its peers.")
    parser.add_argument("--pairs", type=int, default=plan.pairs, help="of the rows of one pod; 0 leaves them out")
    parser.add_argument("--rounds", type=int, default=plan.rounds, help="of the full node; 0 leaves them out")
    parser.add_argument("--pods", type=int, default=plan.pods, help="of a full node")
    parser.add_argument("--settle", type=float, default=plan.settle_seconds, help="seconds before idle is counted")
    parser.add_argument("--idle", type=float, default=plan.idle_seconds, help="seconds of idle; 0 leaves it out")
    parser.add_argument("--rows", default=",".join(ROWS), help="which rows are measured, comma-separated")
    parser.add_argument("--peers", default=",".join(PEERS), help="who is measured, comma-separated")
    parser.add_argument(
        "--cluster", action="store_true", help="the agents as nodes of one real cluster, beside each other, instead"
    )
    parser.add_argument("--no-build", action="store_true", help="do not build a kubelet that is not there")
    parser.add_argument("--out", type=Path, help="write the table into this file, too")
    return parser.parse_args()


def _measure(options: argparse.Namespace) -> str:
    rows = frozenset(options.rows.split(","))
    if unknown := rows - set(ROWS):
        raise CannotRun(f"--rows {', '.join(unknown)}: it is some of {', '.join(ROWS)}")
    plan = Plan(options.pairs, options.rounds, options.pods, options.settle, options.idle, rows)
    peers, missing = _peers(_wanted_peers(options), build=not options.no_build)
    with contextlib.ExitStack() as stack:
        for peer in peers:
            _progress(f"starting {peer.name}")
            stack.enter_context(peer)
        stack.callback(_finish_undisturbed)
        session = Session(plan, peers, say=_progress)
        asyncio.run(session.run())
        _progress("cleaning up")
    return report(session, missing)


def _measure_cluster(options: argparse.Namespace) -> str:
    plan = ClusterPlan(options.pairs, options.rounds, options.pods, options.settle, options.idle)
    names = _wanted_peers(options)
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(control_plane())
        peers: list[ApiPeer] = []
        for name in names:
            member = stack.enter_context(membership(plane, PLACES[name])) if name in PLACES else None
            if member is not None:
                kubelet = name == ClusterKubelet.name
                made: ApiPeer = (
                    ClusterKubelet(find_kubelet(build=not options.no_build), member)
                    if kubelet
                    else ClusterTempolet(member)
                )
                _progress(f"starting {name}")
                peers.append(stack.enter_context(made))
        observer = ApiObserver(plane)
        stack.callback(observer.close)
        stack.callback(_finish_undisturbed)
        race = Race(plan, peers, observer, say=_progress)
        asyncio.run(race.run())
        _progress("cleaning up")
    return report_cluster(race)


def _wanted_peers(options: argparse.Namespace) -> list[str]:
    names: list[str] = options.peers.split(",")
    if unknown := set(names) - set(PEERS):
        raise CannotRun(f"--peers {', '.join(unknown)}: it is some of {', '.join(PEERS)}")
    return names


def _peers(names: list[str], *, build: bool) -> tuple[list[Peer], str]:
    """Create the requested peers that are available; and the reason if the kubelet is not."""
    missing = "" if "kubelet" in names else "not asked for (--peers)"
    peers: list[Peer] = [RawCri()] if "raw" in names else []
    if "kubelet" in names:
        try:
            peers.append(Kubelet(find_kubelet(build=build)))
        except NoKubelet as error:
            missing = str(error)
            _progress(f"no kubelet, its column stays empty: {missing}")
    return peers + ([Tempolet()] if "tempolet" in names else []), missing


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Check for root and that no other benchmark runs, and turn SIGTERM into the interrupt that cleans up."""
    if os.geteuid() != 0:
        raise CannotRun("`make bench` needs root: containerd makes mounts, network namespaces and cgroups")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background processes with SIGINT ignored
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CannotRun(f"another bench runs on this machine ({LOCK} is held)") from error
        yield
        LOCK.unlink(missing_ok=True)


def _finish_undisturbed() -> None:
    """Ignore further signals during the cleanup."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
