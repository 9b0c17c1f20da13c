"""Is a process that was started for an upgrade waited for until it works, and given up when that is hopeless?"""

import pytest

from worker.telemetry.process_state import ProcessState
from worker.upgrades.health import ENDS_AT_MOST, Process, has_failed, runs_again, waits_for

OLD, NEW = 10, 20
RUNS = Process(NEW, is_active=True)
WORKS = ProcessState(NEW, ready=True, hosts=True, status="working for node n")


@pytest.mark.parametrize(
    ("role", "process", "told", "lacks"),
    [
        pytest.param("worker", RUNS, WORKS, "", id="a-worker-that-hosts-works"),
        pytest.param("worker", RUNS, None, "does not answer", id="one-that-does-not-answer-does-not"),
        pytest.param("worker", Process(OLD, is_active=True), WORKS, "does not run", id="the-one-before-is-no-new-one"),
        pytest.param("worker", Process(words="exit 1"), None, "does not run: exit 1", id="none-runs"),
        pytest.param("worker", Process(NEW, words="waits for x"), WORKS, "waits for x", id="systemd-has-no-ready-yet"),
        pytest.param(
            "worker",
            RUNS,
            ProcessState(OLD, ready=True, hosts=True, status=""),
            "does not answer",
            id="another-answers",
        ),
        pytest.param(
            "worker",
            RUNS,
            ProcessState(NEW, ready=True, hosts=False, status="replaying"),
            "takes no tasks of workflows: replaying",
            id="a-worker-must-host",
        ),
        pytest.param("poller", RUNS, ProcessState(NEW, ready=True, hosts=False, status=""), "", id="a-poller-need-not"),
        pytest.param(
            "poller",
            RUNS,
            ProcessState(NEW, ready=False, hosts=False, status="manifests not read yet"),
            "manifests not read yet",
            id="a-poller-must-have-listed",
        ),
        pytest.param("node", RUNS, ProcessState(NEW, ready=True, hosts=False, status=""), "", id="nor-the-node"),
    ],
)
def test_what_a_process_lacks(role: str, process: Process, told: ProcessState | None, lacks: str) -> None:
    """Empty: it works."""
    why = waits_for(role, process, told, OLD)
    assert lacks in why
    assert bool(why) == bool(lacks)


@pytest.mark.parametrize(
    ("process", "failed"),
    [
        pytest.param(RUNS, False, id="it-runs"),
        pytest.param(Process(), False, id="it-is-not-there-yet"),
        pytest.param(Process(is_over=True), True, id="it-has-ended-for-good"),
        pytest.param(Process(NEW, ends=ENDS_AT_MOST), False, id="it-was-started-again"),
        pytest.param(Process(NEW, ends=ENDS_AT_MOST + 1), True, id="it-ends-again-and-again"),
    ],
)
def test_what_is_hopeless(process: Process, failed: bool) -> None:
    """Then nobody waits for the limit."""
    assert has_failed(process) is failed


@pytest.mark.parametrize(
    ("process", "runs"),
    [
        pytest.param(RUNS, True, id="another-process-runs"),
        pytest.param(Process(OLD, is_active=True), False, id="the-same-one"),
        pytest.param(Process(NEW), False, id="it-is-not-ready"),
        pytest.param(Process(), False, id="none"),
    ],
)
def test_the_release_before_need_not_tell_anything(process: Process, runs: bool) -> None:
    """It may be one that does not know how."""
    assert runs_again(process, OLD) is runs
