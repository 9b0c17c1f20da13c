"""Can the memory of a service, with keys and Secrets in it, be had by a core dump or through /proc?"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMITED = ("setpriv", "--bounding-set=-all,+chown,+dac_override,+dac_read_search,+fowner")
"""With the capabilities of the poller's unit, which are less than a container may have."""
SECRET = "canary-in-the-environment"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="capabilities are given up")
UNITS = Path(__file__).resolve().parents[3] / "deploy" / "systemd"


@pytest.fixture
def poller(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a poller that waits for its Temporal."""
    environment = os.environ | {"TEMPORAL_ADDRESS": "127.0.0.1:1", "TEMPORAL_API_KEY": SECRET}
    arguments = ["poller", f"--root-dir={tmp_path}/root", "--healthz-port=0"]
    process = subprocess.Popen(
        [*LIMITED, Path(sys.executable).with_name("tempolet"), *arguments],
        env=environment,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        assert any("Starting tempolet" in line for line in process.stderr)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("what", ["environ", "mem", "fd/2"])
def test_root_in_a_container_that_sees_the_process_reads_nothing(poller: subprocess.Popen[str], what: str) -> None:
    """Its environment may have an API key of Temporal. The attacker has the same user and capabilities."""
    reading = [*LIMITED, "head", "-c1", f"/proc/{poller.pid}/{what}"]
    told = subprocess.run(reading, capture_output=True, text=True, check=False)
    assert (told.stdout, "Permission denied" in told.stderr) == ("", True), told


def test_a_crash_leaves_no_core(poller: subprocess.Popen[str], tmp_path: Path) -> None:
    """Whatever the limits and the pattern of the machine are."""
    limits = Path(f"/proc/{poller.pid}/limits").read_text()
    assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)
    poller.send_signal(signal.SIGSEGV)
    status = os.waitpid(poller.pid, 0)[1]
    poller.returncode = -os.WTERMSIG(status)
    assert not os.WCOREDUMP(status)
    assert not list(tmp_path.glob("core*"))


@pytest.mark.parametrize("role", ["worker", "poller", "node"])
def test_units_forbid_core_dumps(role: str) -> None:
    """Also before the process has forbidden them itself."""
    assert "LimitCORE=0" in (UNITS / f"tempolet-{role}.service").read_text().splitlines()
