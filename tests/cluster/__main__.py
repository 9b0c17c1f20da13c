"""`make cluster`, `make cluster-down` and `make conformance`.

python -m tests.cluster up            start a cluster with one node and print its kubeconfig; a second call changes nothing
python -m tests.cluster down          stop it and leave nothing
python -m tests.cluster conformance   run the official tests on a cluster of their own, and stop it
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Final

from tests.bench.peers.kubelet import NoKubelet
from tests.cluster.binaries import CONTROL_PLANE, NoBinaries, find_binaries
from tests.cluster.conformance.conformance_run import Choice, ConformanceFailed, run_official_tests
from tests.cluster.conformance.without_temporal import NotHandedBack
from tests.cluster.control_plane import ControlPlaneFailed
from tests.cluster.one_node import PEERS, ClusterFailed, OneNode
from tests.own_number import NoNumberLeft
from worker.standalone.down import DownFailed
from worker.standalone.progress import Progress
from worker.standalone.temporal_server import TemporalFailed
from worker.standalone.up import UpFailed

CLUSTER: Final = OneNode(Path("/var/lib/tempolet-cluster"))
NOT_UP: Final = (
    UpFailed,
    DownFailed,
    ControlPlaneFailed,
    NoBinaries,
    NoKubelet,
    ClusterFailed,
    ConformanceFailed,
    NotHandedBack,
    TemporalFailed,
    NoNumberLeft,
    TimeoutError,
)


def main() -> int:
    """Run the command; returns an exit code."""
    given = _arguments()
    try:
        if given.command == "up":
            _up()
        elif given.command == "down":
            CLUSTER.stop(Progress())
        else:
            return run_official_tests(_choice(given))
    except NOT_UP as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _choice(given: argparse.Namespace) -> Choice:
    return Choice(given.peer, given.procs, given.focus, given.skip, given.out, given.without_temporal)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("up", "down", "conformance"))
    parser.add_argument("--peer", choices=PEERS, default="tempolet", help="whose node the official tests run on")
    parser.add_argument("--procs", type=int, default=8, help="test processes at once")
    parser.add_argument("--focus", default="", help="regular expression of test names [Conformance, NodeConformance]")
    parser.add_argument("--skip", default="", help="regular expression of names to leave out")
    parser.add_argument("--out", type=Path, default=None, help="folder of log and junit files")
    parser.add_argument(
        "--without-temporal",
        action="store_true",
        help="end Temporal while the tests run, then look for the pods' stories",
    )
    given = parser.parse_args()
    if given.without_temporal and given.peer != "tempolet":
        parser.error("--without-temporal is for tempolet's node: the kubelet has no Temporal")
    return given


def _up() -> None:
    begun = time.monotonic()
    find_binaries(CONTROL_PLANE)
    CLUSTER.start(Progress())
    kubeconfig = CLUSTER.plane.admin_kubeconfig
    print(f"a cluster of one node in {time.monotonic() - begun:.1f} s; use it with\n  export KUBECONFIG={kubeconfig}")
    print(f"  export TEMPOLET_RUN_DIR={CLUSTER.settings.run_dir}   # for tempolet pods, explain, history …")
    print(f"kubectl of the same version: {CLUSTER.plane.programs / 'kubectl'}")


if __name__ == "__main__":
    sys.exit(main())
