"""Which pending stops are shortened, and which are left alone?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import ShortenStop, StopContainer
from proto.temporal.pod import Lifecycle
from proto.temporal.pod_inputs import Eviction
from tests.workflows.decide.situations import KEY, Context, at, deletion, describe_all, down, pod, seen, situation, up
from workflows.decide.actions import Action, key
from workflows.decide.record.fold import fold
from workflows.decide.steps.pod_actions import pod_actions

WEB: dict[str, Any] = {"containers": {"web": up()}}


def stop(name: str = "web", *, grace: float = 30, asked: float = 0) -> StopContainer:
    """Build a pending stop."""
    return StopContainer(KEY, name, f"{name}-0", timedelta(seconds=grace), at(asked), "ManifestRemoved")


def shorten(grace: float, asked: float) -> ShortenStop:
    """Build a pending shortening."""
    return ShortenStop(KEY, "web", "web-0", timedelta(seconds=grace), at(asked), "ManifestRemoved")


@pytest.mark.parametrize(
    ("busy", "known", "now", "decision"),
    [
        pytest.param([stop()], {"deletion": deletion()}, 5, [], id="nobody-asked-for-less"),
        pytest.param(
            [stop()],
            {"deletion": deletion(grace=1, again=5)},
            5,
            ["ShortenStop web/by-12:00:06"],
            id="a-second-deletion",
        ),
        pytest.param(
            [stop(grace=300)],
            {"deletion": deletion()},
            5,
            ["ShortenStop web/by-12:00:30"],
            id="a-liveness-kill-s-longer",
        ),
        pytest.param(
            [stop()], {"deletion": deletion(grace=29.5, again=0)}, 5, [], id="less-than-a-second-is-not-worth-it"
        ),
        pytest.param([stop()], {"deletion": deletion(grace=1, again=28)}, 29, [], id="it-is-over-anyway"),
        pytest.param([stop(grace=5)], {"deletion": deletion()}, 1, [], id="never-lengthened"),
        pytest.param([stop(), shorten(1, 5)], {"deletion": deletion(grace=1, again=5)}, 5, [], id="told-already"),
        pytest.param(
            [stop(), shorten(20, 5)],
            {"deletion": deletion(grace=1, again=7)},
            7,
            ["ShortenStop web/by-12:00:08"],
            id="a-third-deletion",
        ),
        pytest.param(
            [stop()],
            {"deletion": deletion(grace=1, again=5), "containers": {"web": down(143)}},
            5,
            [],
            id="it-has-ended-and-only-the-answer-is-out",
        ),
        pytest.param(
            [stop()],
            {"deletion": deletion(grace=2, asked=5), "eviction": Eviction(at(0), "DeadlineExceeded", "")},
            5,
            ["ShortenStop web/by-12:00:07"],
            id="evicted-and-then-deleted",
        ),
    ],
)
def test_shortening(busy: list[Action], known: dict[str, Any], now: float, decision: list[str]) -> None:
    """The action besides a stop."""
    known = {"lifecycle": Lifecycle.TERMINATING, **WEB, **known}
    here = situation(context=Context(now=at(now), busy=tuple(busy)), **known)
    assert describe_all(pod_actions(here).begin) == decision


def test_what_it_asks_for() -> None:
    """The shorter grace period, counted from its request, for the same instance, with the deletion's reason."""
    known = {"lifecycle": Lifecycle.TERMINATING, "deletion": deletion(grace=1, again=5), **WEB}
    (action,) = pod_actions(situation(context=Context(now=at(6), busy=(stop(),)), **known)).begin
    words = "ManifestRemoved: web.yaml is gone"
    assert action == ShortenStop(KEY, "web", "web-0", timedelta(seconds=1), at(5), words)


def test_two_containers_and_one_that_is_not_stopped_yet() -> None:
    """Each stop is shortened separately; a stop that starts now has the shorter grace period at once."""
    containers = {"a": up("a"), "b": up("b")}
    known = {"lifecycle": Lifecycle.TERMINATING, "deletion": deletion(grace=1, again=5), "containers": containers}
    here = situation(pod("a", "b"), Context(now=at(5), busy=(stop("a"),)), **known)
    assert describe_all(pod_actions(here).begin) == ["StopContainer b", "ShortenStop a/by-12:00:06"]


def test_the_first_of_both_answers_is_the_end() -> None:
    """The second result changes nothing."""
    here = situation(lifecycle=Lifecycle.TERMINATING, deletion=deletion(grace=1, again=5), **WEB)
    fold(here, shorten(1, 5), seen(code=137))
    fold(here, stop(), seen(code=143))
    end = here.observed.containers["web"].exit
    assert end
    assert end.exit_code == 137


def test_a_shortening_has_a_key_of_its_own() -> None:
    """Different from the stop's and from an earlier shortening's; each still belongs to its container."""
    keys = [key(one) for one in (stop(), shorten(20, 5), shorten(1, 7))]
    assert keys == ["container/web", "container/web/by-12:00:25", "container/web/by-12:00:08"]
