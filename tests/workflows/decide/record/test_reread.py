"""What does a re-read of the runtime change, and which facts does it never change?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import RuntimeContainer
from proto.temporal.pod import ContainerState, Failure, Sandbox
from tests.workflows.decide.situations import (
    UNKNOWN,
    Context,
    at,
    describe_all,
    done,
    down,
    pod,
    read,
    sandbox,
    seen,
    seen_sandbox,
    situation,
    stopping,
    up,
)
from workflows.decide.record.fold import fold
from workflows.decide.record.reread import look_for_earlier_starts
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.versions import LOOKS_FOR_STARTS

FAILED = {"container/web": Failure("DeadlineExceeded", "no answer", at(-1))}


@pytest.mark.parametrize(
    ("behaviour", "failures", "looks"),
    [
        pytest.param(LOOKS_FOR_STARTS, FAILED, True, id="a-start-failed-in-the-run-before"),
        pytest.param(LOOKS_FOR_STARTS, {"volumes": FAILED["container/web"]}, False, id="something-else-failed"),
        pytest.param(LOOKS_FOR_STARTS - 1, FAILED, False, id="earlier-behaviours"),
    ],
)
def test_a_run_begins_with_what_the_one_before_did_not_look_for(
    behaviour: int, failures: dict[str, Failure], looks: bool
) -> None:
    """The one before may have followed an earlier behaviour."""
    here = situation(pod(), Context(behaviour=behaviour), failures=dict(failures))
    look_for_earlier_starts(here)
    assert (here.observed.runtime_stale, here.observed.starts_in_doubt) == (looks, looks)


# --- a known fact stays


def test_a_known_exit_is_never_overwritten() -> None:
    """Not by a stop that found it gone, not by a late read, not by its disappearance."""
    here = situation(containers={"web": down(3)})
    known = here.observed.containers["web"].exit
    fold(here, stopping(), seen(state=ContainerState.EXITED))
    read(here, seen(code=9))
    read(here, seen())
    read(here)
    facts = here.observed.containers["web"]
    assert (facts.exit, facts.state) == (known, ContainerState.EXITED)


def test_an_older_instance_is_ignored() -> None:
    """The newest instance is the container; it is seen running."""
    here = situation(containers={"web": up(attempt=2)})
    known = read(here, seen(attempt=2), seen(attempt=1, code=1))
    facts = known.containers["web"]
    assert (facts.attempt, facts.exit, known.dead_containers["web"]) == (2, None, ("web-1",))


def test_a_newer_instance_is_adopted_with_all_that_was_between() -> None:
    """The result of a start may be lost: the previous exit becomes the last state and causes its back-off."""
    here = situation(containers={"web": up()})
    facts = read(here, seen(attempt=1), seen(code=7)).containers["web"]
    assert (facts.container_id, facts.exit) == ("web-1", None)
    assert facts.last_exit is not None
    assert (facts.last_exit.exit_code, facts.backoff) == (7, timedelta(seconds=10))


def test_a_lost_history_is_read_back_from_the_runtime() -> None:
    """Counts, exits and back-off, as far as the runtime has them."""
    facts = read(situation(), seen(attempt=2), seen(attempt=1, code=1), seen(code=1)).containers["web"]
    assert (facts.attempt, facts.backoff) == (2, timedelta(seconds=20))
    assert facts.last_exit is not None
    assert facts.last_exit.container_id == "web-1"


@pytest.mark.parametrize(
    "others", [pytest.param((), id="nothing-is-left"), pytest.param((seen(code=1),), id="only-an-older-one-is-left")]
)
def test_a_vanished_container_has_ended(others: tuple[RuntimeContainer, ...]) -> None:
    """With the kubelet's reason for that; its restart count stays."""
    facts = read(situation(containers={"web": up(attempt=1)}), *others).containers["web"]
    assert facts.exit is not None
    assert (facts.exit.container_id, facts.exit.exit_code, facts.exit.reason) == ("web-1", 137, UNKNOWN)
    assert facts.attempt == 1


def test_what_is_no_part_of_the_pod_is_left_alone() -> None:
    """A container that is not in the spec."""
    assert "debug" not in read(situation(), seen("debug")).containers


# --- init containers without records


@pytest.mark.parametrize(
    ("containers", "finished"),
    [
        pytest.param((seen("web"),), ["i", "j"], id="a-regular-one-runs-here"),
        pytest.param((seen("web", code=1),), ["i", "j"], id="a-regular-one-ended-here"),
        pytest.param((seen("j"),), ["i"], id="the-last-init-container-runs-here"),
        pytest.param((seen("i"),), [], id="the-first-runs-here"),
        pytest.param((seen("web", sandbox_id="old"),), [], id="a-regular-one-ended-elsewhere"),
    ],
)
def test_initialization_is_known_from_what_came_later(
    containers: tuple[RuntimeContainer, ...], finished: list[str]
) -> None:
    """Like the kubelet, by the last container found."""
    known = read(situation(pod(init=["i", "j"])), *containers)
    assert sorted(name for name, facts in known.containers.items() if facts.done_in_sandbox == "s0") == finished


def test_an_init_container_stays_done_when_its_record_is_pruned() -> None:
    """Only a new sandbox runs it again."""
    known = read(situation(pod(init=["i"]), containers={"i": done("i"), "web": up()}), seen("web"))
    assert known.containers["i"].done_in_sandbox == "s0"


# --- sandboxes


@pytest.mark.parametrize(
    ("known", "sandboxes", "expected"),
    [
        pytest.param(sandbox(), (seen_sandbox(),), ("s0", True, ()), id="as-it-was"),
        pytest.param(sandbox(), (seen_sandbox(ready=False),), ("s0", False, ()), id="it-died"),
        pytest.param(sandbox(), (), ("s0", False, ()), id="it-is-gone"),
        pytest.param(
            sandbox(1), (seen_sandbox(0, ready=False), seen_sandbox(1)), ("s1", True, ("s0",)), id="an-old-one-is-left"
        ),
        pytest.param(sandbox(), (seen_sandbox(1), seen_sandbox(0)), ("s1", True, ("s0",)), id="a-newer-one-is-adopted"),
        pytest.param(None, (seen_sandbox(3),), ("s3", True, ()), id="one-nobody-knew-is-adopted"),
        pytest.param(None, (seen_sandbox(ips=()),), ("s0", False, ()), id="one-without-an-address-is-of-no-use"),
        pytest.param(
            sandbox(ready=False, stopped=True), (seen_sandbox(),), ("s0", False, ()), id="one-that-we-stopped-stays-so"
        ),
    ],
)
def test_sandboxes(known: Any, sandboxes: tuple[Sandbox, ...], expected: tuple[str, bool, Any]) -> None:
    """Which one is the pod's, whether it is ready, and which are old."""
    observed = read(situation(sandbox=known), sandboxes=sandboxes)
    assert observed.sandbox is not None
    assert (observed.sandbox.sandbox_id, observed.sandbox.ready, observed.old_sandboxes) == expected
    assert observed.next_sandbox_attempt > observed.sandbox.attempt


def test_a_pod_on_the_host_s_network_needs_no_address() -> None:
    """Its sandbox has no address of its own."""
    observed = read(situation(pod(hostNetwork=True), sandbox=None), sandboxes=(seen_sandbox(ips=()),))
    assert observed.sandbox is not None
    assert observed.sandbox.ready


def test_a_sandbox_that_is_gone_needs_no_stop() -> None:
    """Its network was removed with it."""
    observed = read(situation(), sandboxes=())
    assert observed.sandbox is not None
    assert observed.sandbox.stopped


@pytest.mark.parametrize("again", [pytest.param(False, id="no-hint-meanwhile"), pytest.param(True, id="one-meanwhile")])
def test_a_hint_during_a_read_asks_for_another(again: bool) -> None:
    """The result may be too old to contain it."""
    known = read(situation(runtime_stale=True, runtime_stale_again=again), seen())
    assert (known.runtime_stale, known.runtime_stale_again) == (again, False)


def test_those_that_the_runtime_forgot_are_not_run_again() -> None:
    """The last init container runs, so the earlier ones have succeeded."""
    here = situation(pod("a", init=["i", "j", "k"]))
    read(here, seen("k"))
    assert pod_actions(here).begin == ()
    read(here, seen("k", code=0))
    assert describe_all(pod_actions(here).begin) == ["StartContainer a 0"]


def test_a_sandbox_without_an_address_is_made_anew() -> None:
    """Its containers are stopped first; on the host network it needs none."""
    running = [seen(name) for name in "abc"]
    here = situation(pod("a", "b", "c"), sandbox=None)
    read(here, *running, sandboxes=(seen_sandbox(ips=()),))
    assert describe_all(pod_actions(here).begin) == ["StopContainer a", "StopContainer b", "StopContainer c"]
    here = situation(pod("a", "b", "c", hostNetwork=True), sandbox=None)
    read(here, *running, sandboxes=(seen_sandbox(ips=()),))
    assert describe_all(pod_actions(here).begin) == []
