"""Is a pod undone strictly in reverse order, and is there nothing to undo for a step that never ran?"""

from typing import Any

import pytest

from proto.temporal.activities.requests import (
    MakePodDirectories,
    RemoveContainer,
    StartContainer,
    StopContainer,
    StopPodSandbox,
)
from proto.temporal.images import ImageFacts
from proto.temporal.pod import Lifecycle, Observed
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    KEY,
    Context,
    at,
    deletion,
    describe_all,
    down,
    pod,
    sandbox,
    situation,
    up,
)
from workflows.decide.actions import key
from workflows.decide.ending.grace import DEFAULT
from workflows.decide.steps.order import ORDER
from workflows.decide.steps.pod_actions import pod_actions

GOING: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATING, "deletion": deletion()}
STARTING = StartContainer(KEY, "s0", 0, "", {"name": "web"}, {})
OF_API = Context(from_api=True)
STOPPED = sandbox(ready=False, stopped=True)


def test_steps() -> None:
    """The order of a pod's life."""
    assert [step.name for step in ORDER] == [
        "object",
        "directories",
        "volumes",
        "images",
        "sandbox record",
        "claims",
        "sandbox",
        "resources",
        "containers",
        "probes",
        "tidy",
    ]


@pytest.mark.parametrize("step", [pytest.param(step, id=step.name) for step in ORDER if step.name != "directories"])
def test_an_undo_whose_do_never_ran_yields_nothing(step: Any) -> None:
    """A pod that is deleted before anything was created."""
    nothing = situation(**GOING)
    nothing.observed.sandbox, nothing.observed.images, nothing.observed.directories = None, {}, False
    assert not list(step.undo(nothing))


def test_directories_are_looked_for_even_if_never_made() -> None:
    """The last step cleans up: there may be a cgroup or some directories; missing ones count as removed."""
    nothing = situation(**GOING, sandbox=None, directories=False, images={})
    assert describe_all(pod_actions(nothing).begin) == ["RemovePodDirectories"]


@pytest.mark.parametrize(
    ("context", "known", "begun"),
    [
        pytest.param(DEFAULT_CONTEXT, {"containers": {"web": up()}}, ["StopContainer web"], id="containers-first"),
        pytest.param(
            Context(busy=(StopContainer(KEY, "web", "web-0", DEFAULT, at(0), ""),)),
            {"containers": {"web": up()}},
            [],
            id="nothing-else-while-one-is-being-stopped",
        ),
        pytest.param(Context(busy=(STARTING,)), {}, [], id="nor-while-one-is-still-starting"),
        pytest.param(
            Context(busy=(RemoveContainer(KEY, "web", "web-0"),)), {}, [], id="nor-while-a-dead-one-is-being-removed"
        ),
        pytest.param(DEFAULT_CONTEXT, {"containers": {"web": down(0)}}, ["StopPodSandbox"], id="then-the-sandbox"),
        pytest.param(Context(busy=(StopPodSandbox(KEY, "s0"),)), {}, [], id="nothing-else-while-it-is-being-stopped"),
        pytest.param(DEFAULT_CONTEXT, {"sandbox": STOPPED}, ["RemovePodSandbox s0"], id="then-its-record"),
        pytest.param(DEFAULT_CONTEXT, {"sandbox": None}, ["RemovePodDirectories"], id="directories-last"),
        pytest.param(
            Context(busy=(MakePodDirectories(KEY, ()),)), {"sandbox": None}, [], id="not-while-they-are-being-made"
        ),
        pytest.param(DEFAULT_CONTEXT, {"sandbox": None, "cleaned": True}, [], id="then-nothing"),
        pytest.param(OF_API, {"sandbox": None}, ["RemovePodDirectories"], id="directories-before-the-object"),
        pytest.param(OF_API, {"sandbox": None, "cleaned": True}, ["DeletePodObject"], id="the-object-of-the-api-last"),
        pytest.param(OF_API, {"sandbox": None, "cleaned": True, "object_deleted": True}, [], id="and-then-nothing"),
    ],
)
def test_undo_goes_strictly_upward(context: Context, known: dict[str, Any], begun: list[str]) -> None:
    """A step is undone once every later step is."""
    assert describe_all(pod_actions(situation(context=context, **GOING, **known)).begin) == begun


def test_every_action_belongs_to_one_step() -> None:
    """Otherwise an undo would not wait for it."""
    up_and_down = [
        situation(sandbox=None, directories=False, images={}),
        situation(context=Context(behaviour=1), sandbox=None, directories=False, images={}),
        situation(),
        situation(containers={"web": up()}, dead_containers={"web": ("a", "b")}, old_sandboxes=("s9",)),
        situation(containers={"web": up()}, **GOING),
        situation(**GOING),
        situation(sandbox=STOPPED, **GOING),
        situation(sandbox=None, **GOING),
        situation(context=OF_API, sandbox=None, cleaned=True, **GOING),
    ]
    actions = [action for one in up_and_down for action in pod_actions(one).begin]
    assert len({type(action) for action in actions}) == 11
    for action in actions:
        owners = [step.name for step in ORDER if key(action).startswith(step.keys)]
        assert len(owners) == 1, f"{key(action)} belongs to {owners}"


def test_builders_say_what_they_mean() -> None:
    """By default only the container's start is missing."""
    assert describe_all(pod_actions(situation(pod())).begin) == ["StartContainer web 0"]
    assert situation().observed == Observed(
        started_at=at(-60),
        directories=True,
        sandbox=sandbox(),
        images={"busybox:1 IfNotPresent": ImageFacts("sha256:1", pulled=True)},
        next_sandbox_attempt=1,
    )
