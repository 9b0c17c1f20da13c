"""Under a real systemd: is a process of `tempolet up` a service that comes back, and is nothing of it left afterwards?"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import worker
from tests.worker.daemon.systemd_machine import Machine, skip_unless_possible

pytestmark = pytest.mark.systemd

CHECKOUT = Path(worker.__file__).resolve().parents[1]
FOREIGN = "tempolet-up-poller.service"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return what a process beside systemd saw of a service."""
    skip_unless_possible()
    folder = tmp_path_factory.mktemp("units")
    machine = Machine(folder)
    machine.add_journal()
    with machine:
        machine.inside("mount", "-t", "tmpfs", "tmpfs", "/etc/systemd/system")  # where units are enabled
        module = ("-m", "tests.worker.standalone.machine.units_inside", str(folder), str(machine.units))
        told = machine.inside("env", f"PYTHONPATH={CHECKOUT}", sys.executable, *module)
        yield json.loads(told.splitlines()[-1])


def test_it_runs_and_is_found_by_whoever_has_its_pid_file(seen: dict[str, Any]) -> None:
    """A second start finds it; so does a look that knows of no units."""
    assert (seen["started"], seen["again"], seen["others"]) == (True, True, True)


def test_it_has_its_words_and_variables(seen: dict[str, Any]) -> None:
    """As they were given; nothing of them is systemd's to expand."""
    assert seen["log"].splitlines()[1:] == ['so "it" $is 50% $1']
    assert seen["environment"] == "0o600"


def test_it_logs_to_the_journal(seen: dict[str, Any]) -> None:
    """And the command that shows it is told; there is no file."""
    assert seen["log"].startswith("`journalctl -u tempolet-up-temporal` ends:\n")
    assert not seen["file"]


def test_how_the_log_of_one_that_ends_ends(seen: dict[str, Any]) -> None:
    """Without what it has said in an earlier life, and without what systemd says of it."""
    assert len(seen["ends"]) == 2
    for told in seen["ends"]:
        assert re.fullmatch(r"`journalctl -u tempolet-up-node` ends:\nbegun\nlife of \d+", told)


def test_a_unit_of_an_earlier_release_has_its_file(seen: dict[str, Any]) -> None:
    """Until it is written again."""
    assert seen["earlier"] == "/a/50%.log"


def test_a_killed_one_comes_back(seen: dict[str, Any]) -> None:
    """As another process of the same service."""
    assert seen["restarted"]


def test_it_is_enabled_with_what_a_boot_needs(seen: dict[str, Any]) -> None:
    """By its target alone."""
    units = ["tempolet-up-boot.service", "tempolet-up-temporal.service", "tempolet-up.target"]
    assert (seen["installed"], seen["enabled"]) == (units, True)


def test_a_stopped_one_stays_so(seen: dict[str, Any]) -> None:
    """And says whether it had to be killed."""
    assert (seen["willing"], seen["stopped"]) == (True, True)


def test_a_unit_that_up_did_not_write_is_not_touched(seen: dict[str, Any]) -> None:
    """It is refused by name, and it is all that is left in the end."""
    assert f"{FOREIGN} is there, and `tempolet up` did not write it" in seen["foreign"]
    assert seen["left"] == [FOREIGN]
