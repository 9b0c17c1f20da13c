"""Runs the official tests on a new one-node cluster, and compares the result with the tests that the real kubelet passes.

`make conformance`: builds what is missing, starts everything, runs, prints result and time, leaves only log and junit file.
"""

import contextlib
import re
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster.binaries import CONTROL_PLANE, KUBELET, OFFICIAL_TESTS, find_binaries
from tests.cluster.conformance.official_images import OfficialImages
from tests.cluster.conformance.pod_ledger import PodLedger
from tests.cluster.conformance.without_temporal import Stories, find_stories, until_handed_back, until_no_pods
from tests.cluster.one_node import NODE, OneNode, cluster_number
from tests.node.images.debian_registry import DebianRegistry
from worker.standalone.progress import Progress

KUBELET_PASSED: Final = Path(__file__).parent / "kubelet-passed.txt"
FOCUS: Final = r"\[Conformance\]|\[NodeConformance\]"
SKIP: Final = r"\[Serial\]|\[Disruptive\]|\[Slow\]|\[Flaky\]|Feature:"
RAN: Final = frozenset({"passed", "failed", "timedout", "panicked", "interrupted", "aborted"})
OUT: Final = Path(__file__).parents[3] / ".build" / "conformance"


class ConformanceFailed(Exception):
    """The tests gave no result; says where to look."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which tests, how, and on whose node."""

    peer: str = "tempolet"
    procs: int = 8
    focus: str = ""
    skip: str = ""
    out: Path | None = None
    without_temporal: bool = False
    """Whether Temporal is ended while the tests run."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run, by the names of the tests."""

    ran: frozenset[str]
    passed: frozenset[str]
    owed: frozenset[str]
    """Selected tests that the real kubelet passes."""
    failures: dict[str, str]
    """The failures' reasons, shortened."""

    @property
    def missed(self) -> list[str]:
        """Tests that the kubelet passes and this node fails or skips."""
        return sorted(self.owed - self.passed)

    def lines(self) -> list[str]:
        """Return the lines of the report."""
        said = [
            f"kubelet passes, we fail or skip: {name}\n    {self.failures.get(name, 'skipped')}" for name in self.missed
        ]
        said += [f"fails, kubelet failed too: {name}" for name in sorted(self.ran - self.passed - self.owed)]
        kept = len(self.owed & self.passed)
        said.append(
            f"{len(self.passed)} of {len(self.ran)} passed; of {len(self.owed)} that the kubelet passes, {kept}"
        )
        return said


def run_official_tests(choice: Choice) -> int:
    """Start a cluster, run the tests, remove the cluster; returns an exit code."""
    programs = find_binaries((*CONTROL_PLANE, *OFFICIAL_TESTS, *(KUBELET if choice.peer == "kubelet" else ())))
    out = (choice.out or OUT / (f"{choice.peer}-alone" if choice.without_temporal else choice.peer)).absolute()
    out.mkdir(parents=True, exist_ok=True)
    with cluster_number() as number:
        home = Path(tempfile.mkdtemp(prefix="tplc.", dir="/tmp"))
        result, seconds, stories = _run_on(OneNode(home, number, choice.peer, programs), out, choice)
    how = f"{choice.peer}, {choice.procs} processes{', without Temporal' if choice.without_temporal else ''}"
    said = [*result.lines(), *(stories.lines() if stories else ())]
    said.append(f"{how}: {seconds / 60:.1f} min; log and junit file in {out}")
    (out / "summary").write_text("\n".join([*said, ""]))
    print("\n".join(said))
    return 1 if result.missed or (stories and stories.wrong) else 0


def _run_on(cluster: OneNode, out: Path, choice: Choice) -> tuple[Result, float, Stories | None]:
    """Run on a cluster that is started and always stopped; returns the duration of the tests, too."""
    show, programs = Progress(), cluster.plane.programs
    try:
        with DebianRegistry(out / "registry") as registry:
            cluster.start(show)
            with show.step("test images"):
                OfficialImages(out.parent / "images", programs).give(cluster.settings.containerd, registry)
            ledger = PodLedger(programs / "kubectl", cluster.plane.admin_kubeconfig, NODE, out / "pods")
            if not choice.without_temporal:
                return *_test(cluster, out, choice, show), None
            with ledger:
                with _temporal_ended(cluster, show):
                    result, seconds = _test(cluster, out, choice, show)
                stories = _stories(cluster, ledger, show)
        return result, seconds, stories
    finally:
        cluster.keep_logs(out)
        cluster.stop(show)


def _test(cluster: OneNode, out: Path, choice: Choice, show: Progress) -> tuple[Result, float]:
    """Run the tests; returns their result and duration."""
    with show.step("official tests") as step:
        begun = time.monotonic()
        run_ginkgo(cluster.plane.programs, cluster.plane.admin_kubeconfig, out, choice)
        seconds = time.monotonic() - begun
        result = read_result(out, owed_by(choice))
        step.detail = result.lines()[-1]
    return result, seconds


@contextlib.contextmanager
def _temporal_ended(cluster: OneNode, show: Progress) -> Iterator[None]:
    """End the node's Temporal while the block runs; if that fails, the cluster is stopped anyway."""
    temporal = cluster.settings.temporal
    with show.step("no Temporal") as step:
        temporal.stop()
        step.detail = "ended"
    yield
    with show.step("Temporal") as step:
        temporal.start()
        step.detail = temporal.address


def _stories(cluster: OneNode, ledger: PodLedger, show: Progress) -> Stories:
    """Wait until every pod was handed back, and look whether each that lived has its story."""
    until_no_pods(cluster.plane.api, NODE)
    with show.step("hand-back") as step:
        step.detail = f"{until_handed_back(cluster.settings)} pods were left when Temporal was back"
    with show.step("stories") as step:
        stories = find_stories(cluster.settings, ledger.seen())
        step.detail = stories.lines()[-1]
    return stories


def run_ginkgo(programs: Path, kubeconfig: Path, out: Path, choice: Choice, *, seed: int = 0) -> None:
    """Run the selected tests; raises ConformanceFailed if they gave no result."""
    junit = out / "junit_01.xml"
    junit.unlink(missing_ok=True)
    command: list[str | Path] = [programs / "ginkgo", f"-procs={choice.procs}", "--no-color", "--timeout=80m"]
    command += [f"--focus={choice.focus or FOCUS}", f"--skip={choice.skip or SKIP}"]
    command += [f"--seed={seed}"] if seed else []
    command += [programs / "e2e.test", "--", "--kubeconfig", kubeconfig, "--provider", "local", "--num-nodes", "1"]
    command += ["--allowed-not-ready-nodes", "0", "--node-schedulable-timeout", "30s", "--report-dir", out]
    with (out / "log").open("wb") as log:
        subprocess.run(command, stdout=log, stderr=log, check=False, cwd=out)
    if not junit.exists():
        raise ConformanceFailed(f"no result of the official tests: see {out / 'log'}")


def read_result(out: Path, owed: Iterable[str]) -> Result:
    """Read the junit file; `owed` are the tests that must pass."""
    cases = [
        case for case in ET.parse(out / "junit_01.xml").iter("testcase") if case.get("name", "").startswith("[It]")
    ]
    state = {case.get("name", "").removeprefix("[It] "): case for case in cases}
    ran = frozenset(name for name, case in state.items() if case.get("status") in RAN)
    passed = frozenset(name for name in ran if state[name].get("status") == "passed")
    failures = {name: _why(state[name]) for name in ran - passed}
    return Result(ran, passed, frozenset(owed), failures)


def owed_by(choice: Choice) -> list[str]:
    """Return the selected tests that the real kubelet passes."""
    focus, skip = choice.focus or FOCUS, choice.skip or SKIP
    return [name for name in named_in(KUBELET_PASSED) if re.search(focus, name) and not re.search(skip, name)]


def named_in(file: Path) -> list[str]:
    """Read the names of tests, one per line."""
    return [line.strip() for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]


def exactly(names: Sequence[str]) -> str:
    """Return a regular expression of exactly these names, for Go's regexp and Python's."""
    return "|".join(re.escape(name) for name in names)


def _why(case: ET.Element) -> str:
    failure = next((one for one in case if one.tag in {"failure", "error"}), None)
    words = "" if failure is None else failure.get("message") or failure.text or ""
    return " ".join(words.split())[:300]
