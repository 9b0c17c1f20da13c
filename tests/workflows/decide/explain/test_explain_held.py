"""Does an explanation say what is blocked, and by what?"""

from typing import Any

import pytest

from proto.temporal.activities.requests import RunHook
from proto.temporal.hooks import Hook
from proto.temporal.operator import SentenceKind
from proto.temporal.pod import Lifecycle, ProbeFact, ProbeKind
from proto.temporal.pod_inputs import GivenCondition
from tests.workflows.decide.explain.explained import (
    ABSENT,
    FORTY,
    KEY_OF_IMAGE,
    LOOPS,
    NEW,
    NOT_FOUND,
    NOT_READY,
    PULL,
    RUN,
    UP,
    said,
)
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    KEY,
    READ,
    Context,
    at,
    container,
    deletion,
    describe,
    done,
    down,
    pod,
    situation,
    starting,
    stopping,
    up,
)
from workflows.decide.explain.explain import explanation

ASKED = {"tcpSocket": {"port": 80}}
PROBED = pod(containers=[container("web", startupProbe=ASKED, readinessProbe=ASKED)])
HOOKED = pod()
HOOKED["metadata"]["annotations"] = {"preStart.tempolet.dev/web": '{"tcpSocket": {"port": 80}}'}
REFUSED = ProbeFact(success=False, message="connection refused")


@pytest.mark.parametrize(
    ("source", "context", "known", "texts"),
    [
        pytest.param(pod(), DEFAULT_CONTEXT, {"containers": {"web": up()}}, [], id="nothing"),
        pytest.param(pod(), DEFAULT_CONTEXT, {"containers": {"web": LOOPS}}, [], id="a-crash-loop-has-its-own-wait"),
        pytest.param(
            pod("a", "b"),
            Context(busy=(RUN,)),
            NEW,
            ["a, b wait for the sandbox, which is being made"],
            id="by-the-sandbox",
        ),
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
            {**NEW, "failures": {"sandbox": NOT_READY}},
            ["web waits for the sandbox, which is not ready"],
            id="by-a-sandbox-that-fails",
        ),
        pytest.param(
            HOOKED,
            Context(busy=(RunHook(KEY, "web", "", Hook.PRE_START, {}, sandbox_id="s0"),)),
            {},
            ["web waits for RunHook web/preStart/s0/0"],
            id="by-its-pre-start-hook",
        ),
        pytest.param(
            pod(), DEFAULT_CONTEXT, {"directories": False}, ["web waits for the pod's directories"], id="by-directories"
        ),
        pytest.param(
            pod("a", init=["i", "j"]),
            DEFAULT_CONTEXT,
            {"containers": {"i": up("i")}},
            ["j, a wait for init container i"],
            id="by-an-init-container",
        ),
        pytest.param(
            pod("a", init=["i", "j"]),
            DEFAULT_CONTEXT,
            {"containers": {"i": done("i"), "j": down(1, "j", **FORTY)}},
            ["a waits for init container j"],
            id="by-an-init-container-in-back-off",
        ),
        pytest.param(
            pod(),
            Context(busy=(PULL,)),
            {"images": ABSENT},
            ["web waits for its image busybox:1, which is being pulled"],
            id="by-a-pull",
        ),
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
            {"images": {KEY_OF_IMAGE: NOT_FOUND}},
            ["web waits for its image busybox:1, which could not be pulled: ErrImagePull"],
            id="by-an-image-that-is-not-there",
        ),
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
            {"images": {}},
            ["web waits for its image busybox:1, which is looked for"],
            id="by-a-look",
        ),
        pytest.param(
            pod("a", "b"),
            Context(busy=(starting("a"),)),
            {},
            ["b waits for a: containers start one at a time"],
            id="turns",
        ),
        pytest.param(
            PROBED,
            DEFAULT_CONTEXT,
            UP,
            ["web runs and is not ready: its startup probe has no verdict yet"],
            id="by-a-probe-that-was-not-asked-yet",
        ),
        pytest.param(
            PROBED,
            DEFAULT_CONTEXT,
            {
                "containers": {
                    "web": up(probes={ProbeKind.STARTUP: ProbeFact(success=True), ProbeKind.READINESS: REFUSED})
                }
            },
            ["web runs and is not ready: its readiness probe fails: connection refused"],
            id="by-a-probe-that-fails",
        ),
        pytest.param(
            PROBED,
            DEFAULT_CONTEXT,
            {"containers": {"web": up(probes=dict.fromkeys(ProbeKind, ProbeFact(success=True)))}},
            [],
            id="by-no-probe-that-succeeds",
        ),
        pytest.param(
            pod(initContainers=[container("s", restartPolicy="Always", startupProbe=ASKED)]),
            DEFAULT_CONTEXT,
            {"containers": {"s": up("s")}},
            ["s runs and is not ready: its startup probe has no verdict yet", "web waits for init container s"],
            id="by-a-sidecar-that-has-not-started",
        ),
        pytest.param(
            pod(initContainers=[container("s", restartPolicy="Always", readinessProbe=ASKED)]),
            DEFAULT_CONTEXT,
            {"containers": {"s": up("s", probes={ProbeKind.READINESS: REFUSED}), "web": up()}},
            ["s runs and is not ready: its readiness probe fails: connection refused"],
            id="by-a-sidecar-that-is-not-ready",
        ),
        pytest.param(
            pod("a", "b"),
            DEFAULT_CONTEXT,
            {},
            ["b waits for a: containers start one at a time"],
            id="by-one-that-starts-now",
        ),
        pytest.param(
            pod("a", "b"),
            Context(busy=(stopping("a"), PULL)),
            {"containers": {"a": up("a", sandbox_id="s9")}},
            ["b waits for StopContainer a"],
            id="by-whatever-else-is-under-way",
        ),
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
            {**NEW, "waiting_for": "pod u-0 of this name is still here"},
            ["the sandbox waits for the pod's predecessor: pod u-0 of this name is still here"],
            id="by-its-predecessor",
        ),
        pytest.param(
            pod(), Context(busy=(READ,)), {}, ["nothing begins before the runtime has been read"], id="by-a-re-read"
        ),
        pytest.param(
            pod(),
            Context(busy=(starting(),)),
            {"runtime_stale": True},
            ["nothing begins before the runtime has been read, and that waits for: StartContainer web 0"],
            id="by-a-re-read-that-waits-itself",
        ),
        pytest.param(
            pod(),
            Context(busy=(stopping(),)),
            {"containers": {"web": up()}, "deletion": deletion(), "lifecycle": Lifecycle.TERMINATING},
            ["the sandbox stays until web is down"],
            id="the-undoing-too",
        ),
        pytest.param(
            pod(readinessGates=[{"conditionType": "gate1"}]),
            DEFAULT_CONTEXT,
            UP,
            ['Ready waits for a readiness gate: corresponding condition of pod readiness gate "gate1" does not exist.'],
            id="readiness-by-a-gate",
        ),
    ],
)
def test_what_is_held_back(source: dict[str, Any], context: Context, known: dict[str, Any], texts: list[str]) -> None:
    """With the cause."""
    assert said(SentenceKind.HELD, source, context, known) == texts


@pytest.mark.parametrize(
    ("gates", "remedy"),
    [
        pytest.param(
            ["gate1", "gate2"], "`tempolet condition default/web gate2=True` opens one", id="the-first-shut-one"
        ),
        pytest.param(["Ready"], "", id="nobody-sets-the-node-s-own"),
    ],
)
def test_who_opens_a_gate(gates: list[str], remedy: str) -> None:
    """The command that sets it, for a gate that an operator may set."""
    source = pod(readinessGates=[{"conditionType": gate} for gate in gates])
    given = {"gate1": GivenCondition("True", at(0))}
    told = explanation(situation(source, DEFAULT_CONTEXT, **UP, given_conditions=given), describe)
    assert [one.remedy for one in told.sentences if one.kind is SentenceKind.HELD] == [remedy]
