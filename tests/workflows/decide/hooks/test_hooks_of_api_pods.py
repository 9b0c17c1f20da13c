"""Can an edit in the API give a pod that runs a hook of ours, with the container's Secrets and privileges?"""

import json
from dataclasses import replace
from typing import Any

import pytest

from proto.temporal.activities.requests import RunHook
from proto.temporal.hooks import Hook
from proto.temporal.pod import PodJson
from proto.temporal.signals import PodListed
from tests.workflows.decide.situations import Context, describe_all, down, pod, situation
from workflows.decide.manifest import hook_terms
from workflows.decide.record.signals import apply_signal
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.versions import HOOKS_AS_FIRST_TAKEN

API = Context(from_api=True)
OLD_RUN = replace(API, behaviour=HOOKS_AS_FIRST_TAKEN - 1)
HOOK = "postStop.tempolet.dev/web"
GOOD, EVIL, WITH_IMAGE = (
    {"exec": {"command": ["flush"]}},
    {"exec": {"command": ["steal"]}},
    {"exec": {"command": ["steal"]}, "image": "evil.example/x:1"},
)


def annotated(said: dict[str, Any] | None, label: str = "a") -> PodJson:
    """Build a pod with this hook, or without one."""
    made = pod()
    annotations = {HOOK: json.dumps(said)} if said else {}
    made["metadata"] |= {"annotations": annotations | {"example.com/a": label}}
    return made


@pytest.mark.parametrize(
    ("before", "after", "then"),
    [
        pytest.param(None, EVIL, None, id="none-is-added"),
        pytest.param(None, WITH_IMAGE, None, id="none-with-an-image-is-added"),
        pytest.param(GOOD, EVIL, GOOD, id="none-is-changed"),
        pytest.param(GOOD, None, None, id="one-may-be-removed"),
        pytest.param(GOOD, GOOD, GOOD, id="one-that-is-left-alone-stays"),
    ],
)
def test_an_edit_in_the_api(before: dict[str, Any] | None, after: dict[str, Any] | None, then: Any) -> None:
    """All other annotations follow the edit."""
    here = situation(annotated(before), API)
    edited = apply_signal(here, PodListed("api", 1, annotated(after, "b"), in_place=True))
    assert edited
    assert edited["metadata"]["annotations"] == annotated(then, "b")["metadata"]["annotations"]


def test_an_edit_of_hooks_alone_is_no_edit() -> None:
    """It costs nothing, and a resize that waits is not disturbed."""
    here = situation(annotated(None), API)
    assert apply_signal(here, PodListed("api", 1, annotated(WITH_IMAGE), in_place=True)) is None


def test_a_run_of_an_older_behaviour_takes_the_edit() -> None:
    """Its history replays as it was."""
    here = situation(annotated(None), OLD_RUN)
    edited = apply_signal(here, PodListed("api", 1, annotated(EVIL), in_place=True))
    assert edited
    assert HOOK in edited["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("context", "said", "runs"),
    [
        pytest.param(API, WITH_IMAGE, False, id="not-on-a-pod-of-the-api"),
        pytest.param(OLD_RUN, WITH_IMAGE, True, id="in-a-run-of-an-older-behaviour"),
        pytest.param(Context(), WITH_IMAGE, True, id="on-a-static-pod"),
        pytest.param(API, GOOD, True, id="without-an-image"),
    ],
)
def test_a_hook_with_an_image_runs(context: Context, said: dict[str, Any], runs: bool) -> None:
    """A pod of the API may have brought one from a release that allowed it; then it is as if it were not there."""
    here = situation(annotated(said), context, containers={"web": down(1)})
    begun = [one for one in pod_actions(here).begin if isinstance(one, RunHook)]
    assert bool(begun) is runs, describe_all(pod_actions(here).begin)


def test_annotations_in_memory_are_bounded() -> None:
    """A node's pods may have megabytes of them."""
    for number in range(1000):
        short, long = (json.dumps(EVIL | {"timeoutSeconds": number + 1}).ljust(size) for size in (4096, 200_000))
        for text in (short, long):
            source = annotated(None)
            source["metadata"]["annotations"][HOOK] = text
            terms = hook_terms.terms(source, "web", Hook.POST_STOP)
            assert terms
            assert terms.timeout
            assert terms.timeout.total_seconds() == number + 1
    held = [(cache.cache_info().maxsize or 0) for cache in (hook_terms._read_short, hook_terms._read_long)]
    longest = 256 * 1024  # bytes of all annotations of an object, as the API limits them
    assert held[0] * hook_terms.SHORT + held[1] * longest <= 4 << 20
