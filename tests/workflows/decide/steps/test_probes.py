"""Which containers are probed, and what follows from a verdict? (pkg/kubelet/prober, kuberuntime_manager_test.go)"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import ProbeContainer, StopContainer
from proto.temporal.pod import ContainerFacts, ProbeFact, ProbeKind
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    KEY,
    NOW,
    Context,
    at,
    describe_all,
    down,
    pod,
    sandbox,
    situation,
    stopping,
    up,
)
from workflows.decide.containers.readiness import is_ready, is_started
from workflows.decide.lifecycle.lifecycle import pod_finished
from workflows.decide.situation import Situation
from workflows.decide.status.status import pod_status
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.steps.probes import probe_containers

GOOD, BAD = ProbeFact(success=True, sequence=1), ProbeFact(success=False, message="500", sequence=1)
TCP = {"tcpSocket": {"port": 80}}
ALL = {"livenessProbe": TCP, "readinessProbe": TCP, "startupProbe": TCP}
PROBING = ProbeContainer(KEY, "web", "web-0", {"name": "web", **ALL})


def probed(**fields: Any) -> dict[str, Any]:
    """Build a pod whose container web has these probes."""
    source = pod()
    source["spec"]["containers"][0].update(fields)
    return source


def here(source: dict[str, Any], facts: ContainerFacts, context: Context = DEFAULT_CONTEXT, **known: Any) -> Situation:
    """Build the situation of its container web."""
    return situation(source, context, containers={"web": facts}, **known)


def decided(found: Situation) -> list[str]:
    """Describe the actions of probing in short."""
    return describe_all(list(probe_containers(found)))


@pytest.mark.parametrize(
    ("probes", "verdicts", "started", "ready"),
    [
        pytest.param((), {}, True, True, id="without-probes-a-container-that-runs-is-both"),
        pytest.param(("readinessProbe",), {}, True, False, id="not-ready-before-the-first-verdict"),
        pytest.param(("readinessProbe",), {"readiness": GOOD}, True, True, id="ready-when-its-probe-says-so"),
        pytest.param(("readinessProbe",), {"readiness": BAD}, True, False, id="not-ready-when-its-probe-fails"),
        pytest.param(("livenessProbe",), {}, True, True, id="liveness-begins-with-success"),
        pytest.param(("startupProbe",), {}, False, False, id="not-started-before-the-first-verdict"),
        pytest.param(("startupProbe",), {"startup": GOOD}, True, True, id="started-is-ready-without-a-readiness-probe"),
        pytest.param(
            ("startupProbe", "readinessProbe"), {"startup": GOOD}, True, False, id="started-waits-for-its-readiness"
        ),
        pytest.param(
            ("startupProbe", "readinessProbe"),
            {"readiness": GOOD},
            False,
            False,
            id="never-ready-before-it-has-started",
        ),
        pytest.param(
            ("startupProbe", "readinessProbe"),
            {"startup": GOOD, "readiness": GOOD},
            True,
            True,
            id="started-and-ready-with-both",
        ),
    ],
)
def test_started_and_ready(probes: tuple[str, ...], verdicts: dict[str, ProbeFact], started: bool, ready: bool) -> None:
    """The status of a running container (prober_manager_test.go TestUpdatePodStatus)."""
    facts = up(probes={ProbeKind(kind): found for kind, found in verdicts.items()})
    found = here(probed(**dict.fromkeys(probes, TCP)), facts)
    container = found.containers[0]
    assert (is_started(found, container), is_ready(found, container)) == (started, ready)
    shown = pod_status(found)
    assert shown.container_statuses
    assert (shown.container_statuses[0].started, shown.container_statuses[0].ready) == (started, ready)
    assert [one.status for one in shown.conditions or [] if one.type == "Ready"] == ["True" if ready else "False"]


def test_a_container_that_ended_is_neither() -> None:
    """Whatever its probes had found."""
    facts = down(1, probes={ProbeKind.STARTUP: GOOD, ProbeKind.READINESS: GOOD})
    found = here(probed(**ALL), facts)
    assert not is_started(found, found.containers[0])
    assert not is_ready(found, found.containers[0])


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        pytest.param(here(pod(), up()), [], id="without-probes-nothing"),
        pytest.param(here(probed(**ALL), up()), ["ProbeContainer web"], id="one-that-runs-is-probed"),
        pytest.param(here(probed(**ALL), down(1)), [], id="one-that-ended-is-not"),
        pytest.param(situation(probed(**ALL)), [], id="one-that-never-was-is-not"),
        pytest.param(here(probed(**ALL), up(), Context(busy=(PROBING,))), [], id="one-that-is-probed-already-is-not"),
        pytest.param(here(probed(**ALL), up(), Context(busy=(stopping(),))), [], id="one-that-is-being-stopped-is-not"),
        pytest.param(
            here(probed(**ALL), up(probes={ProbeKind.LIVENESS: BAD}), Context(busy=(PROBING,))),
            ["StopContainer web"],
            id="failed-liveness-stops-it",
        ),
        pytest.param(
            here(probed(**ALL), up(probes={ProbeKind.STARTUP: BAD}), Context(busy=(PROBING,))),
            ["StopContainer web"],
            id="failed-startup-stops-it",
        ),
        pytest.param(
            here(probed(**ALL), up(probes={ProbeKind.READINESS: BAD}), Context(busy=(PROBING,))),
            [],
            id="failed-readiness-stops-nothing",
        ),
        pytest.param(
            here(
                probed(**ALL), up(probes={ProbeKind.LIVENESS: GOOD, ProbeKind.STARTUP: GOOD}), Context(busy=(PROBING,))
            ),
            [],
            id="what-succeeds-goes-on",
        ),
        pytest.param(
            here(probed(**ALL), up(probes={ProbeKind.LIVENESS: BAD}), Context(busy=(PROBING, stopping()))),
            [],
            id="a-stop-under-way-is-not-asked-again",
        ),
    ],
)
def test_who_is_probed_and_who_is_stopped(found: Situation, asked: list[str]) -> None:
    """One long action per instance; a verdict that asks for a restart stops it (computePodActions)."""
    assert decided(found) == asked


@pytest.mark.parametrize(
    ("policy", "field", "own", "reason", "grace"),
    [
        pytest.param("Always", "livenessProbe", None, "Container web failed liveness probe, will be restarted", 30),
        pytest.param("OnFailure", "startupProbe", None, "Container web failed startup probe, will be restarted", 30),
        pytest.param("Never", "livenessProbe", None, "Container web failed liveness probe", 30),
        pytest.param("Always", "livenessProbe", 5, "Container web failed liveness probe, will be restarted", 5),
        pytest.param("Always", "startupProbe", 60, "Container web failed startup probe, will be restarted", 60),
        pytest.param("Never", "livenessProbe", 2**63 - 1, "Container web failed liveness probe", 2**31 - 1),
    ],
)
def test_how_a_failed_probe_stops_its_container(
    policy: str, field: str, own: int | None, reason: str, grace: float
) -> None:
    """The kubelet's message, and the probe's grace period instead of the pod's, even a longer one (kuberuntime_container_test.go)."""
    probe = TCP if own is None else {**TCP, "terminationGracePeriodSeconds": own}
    source = probed(**{field: probe})
    source["spec"]["restartPolicy"] = policy
    kind = ProbeKind(field.removesuffix("Probe"))
    (stop,) = probe_containers(here(source, up(probes={kind: BAD}), Context(busy=(PROBING,))))
    assert isinstance(stop, StopContainer)
    assert (stop.reason, stop.grace, stop.asked_at) == (reason, timedelta(seconds=grace), NOW)
    assert stop.container_id == "web-0"


@pytest.mark.parametrize(
    ("verdicts", "grace"),
    [
        pytest.param({ProbeKind.STARTUP: BAD}, 10, id="startup-s"),
        pytest.param({ProbeKind.LIVENESS: BAD}, 20, id="liveness-s"),
        pytest.param({ProbeKind.LIVENESS: BAD, ProbeKind.STARTUP: BAD}, 20, id="liveness-s-where-both-have-failed"),
    ],
)
def test_of_three_graces_that_of_the_failed_probe_counts(verdicts: dict[ProbeKind, ProbeFact], grace: float) -> None:
    """Each probe has one, and the pod a longer one; a stop for another reason uses the pod's."""
    own = {"startupProbe": 10, "livenessProbe": 20}
    source = probed(**{field: {**TCP, "terminationGracePeriodSeconds": value} for field, value in own.items()})
    (stop,) = probe_containers(here(source, up(probes=verdicts), Context(busy=(PROBING,))))
    assert isinstance(stop, StopContainer)
    assert stop.grace == timedelta(seconds=grace)
    lost = pod_actions(here(source, up(probes=verdicts), sandbox=sandbox(ready=False))).begin
    assert [one.grace for one in lost if isinstance(one, StopContainer)] == [timedelta(seconds=30)]


def test_a_container_that_starts_before_the_others_is_probed_like_them() -> None:
    """A sidecar; the kubelet's message names its kind and no restart."""
    source = pod(init=["side"])
    source["spec"]["initContainers"][0] |= {"startupProbe": TCP, "restartPolicy": "Always"}
    found = situation(source, containers={"side": up("side")})
    assert decided(found) == ["ProbeContainer side"]
    (stop,) = probe_containers(situation(source, containers={"side": up("side", probes={ProbeKind.STARTUP: BAD})}))
    assert isinstance(stop, StopContainer)
    assert stop.reason == "Init container side failed startup probe"


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        pytest.param("Always", 0, True, id="always"),
        pytest.param("OnFailure", 0, True, id="on-failure-even-when-it-ended-well"),
        pytest.param("OnFailure", 143, True, id="on-failure"),
        pytest.param("Never", 137, False, id="never"),
    ],
)
def test_what_a_probe_stopped_comes_back(policy: str, code: int, again: bool) -> None:
    """Whatever its exit code, unless the policy is Never; the pod is not seen finished meanwhile."""
    source = probed(livenessProbe=TCP)
    source["spec"]["restartPolicy"] = policy
    found = here(source, down(code, probes={ProbeKind.LIVENESS: BAD}))
    assert pod_finished(found) is not again
    assert (describe_all(pod_actions(found).begin) == ["StartContainer web 1"]) is again
    if again:
        assert pod_status(found).phase == "Running"


def test_the_request_says_all_that_probing_needs() -> None:
    """Name, ports and probes of the container, the pod's address, and earlier verdicts; no command, no env."""
    source = probed(
        readinessProbe=TCP, ports=[{"name": "http", "containerPort": 80}], env=[{"name": "A", "value": "x"}]
    )
    (request,) = probe_containers(here(source, up(probes={ProbeKind.READINESS: GOOD})))
    assert isinstance(request, ProbeContainer)
    assert request.container == {
        "name": "web",
        "ports": [{"name": "http", "containerPort": 80}],
        "readinessProbe": TCP,
    }
    assert (request.pod_ip, request.started_at, request.known) == ("10.88.0.5", at(-60), {ProbeKind.READINESS: GOOD})


def test_a_command_that_refers_to_variables_is_given_them() -> None:
    """Only then."""
    env = [{"name": "A", "value": "x"}]
    source = probed(livenessProbe={"exec": {"command": ["test", "$(A)"]}}, env=env)
    (request,) = probe_containers(here(source, up()))
    assert isinstance(request, ProbeContainer)
    assert request.container["env"] == env


def test_a_pod_on_the_hosts_network_is_asked_at_the_nodes_address() -> None:
    """It has no other address."""
    source = probed(readinessProbe=TCP)
    source["spec"]["hostNetwork"] = True
    (request,) = probe_containers(here(source, up()))
    assert isinstance(request, ProbeContainer)
    assert request.pod_ip == "192.0.2.1"
