"""Does a pod's summary in the Temporal UI describe its state in a few words, and can text of others not pass for ours?"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from kubernetes.client.models.v1_pod_status import V1PodStatus

from proto.temporal.activities.requests import PullImage, RunPodSandbox
from proto.temporal.dropped import DroppedSignals
from proto.temporal.pod import PodKey
from proto.temporal.pod_inputs import HandBack
from workflows.decide.actions import Action
from workflows.decide.status.status import PodSummary
from workflows.loops.card import MESSAGE_LIMIT, card, container_words, outage_words, quoted, restarts, strangers_words

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
POD = PodKey("default", "shop", "u1")
ENDED = {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": NOON}}


def status(*containers: Mapping[str, object], init: tuple[Mapping[str, object], ...] = ()) -> V1PodStatus:
    """Build a status from container names and states."""
    fixed = {"image": "i", "imageID": "", "ready": True, "restartCount": 0}
    return V1PodStatus.model_validate(
        {
            "phase": "Running",
            "containerStatuses": [{**fixed, **one} for one in containers],
            "initContainerStatuses": [{**fixed, **one} for one in init],
        }
    )


AWAY = datetime(2026, 11, 23, 17, tzinfo=UTC)


def test_a_card_says_phase_last_reason_and_containers() -> None:
    """A running pod shows its last reason; init containers are named as such."""
    init = {"name": "migrate", "state": {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": NOON}}}
    main = {"name": "main", "state": {"running": {"startedAt": NOON}}, "lastState": ENDED, "restartCount": 1}
    assert card(status(main, init=(init,)), PodSummary("Running", True, 1, "Error", "lost the database"), {}) == (
        "**Running**, ready, 1 restart\n\n"
        "last reason: **Error**\n\n"
        "`lost the database`\n\n"
        "- init `migrate` ended: Completed, exit code 0 at 2026-11-21 12:00:00 UTC\n"
        "- `main` running since 2026-11-21 12:00:00 UTC, 1 restart; "
        "before: Error, exit code 3 at 2026-11-21 12:00:00 UTC"
    )


def test_an_ephemeral_container_is_named_as_one() -> None:
    """It is listed below the pod's regular containers."""
    main = {"name": "main", "state": {"running": {"startedAt": NOON}}}
    debug = {"name": "debug", "state": {"waiting": {"reason": "ErrImagePull"}}, "ready": False}
    here = status(main)
    here.ephemeral_container_statuses = status(debug).container_statuses
    assert (
        card(here, PodSummary("Running", True, 0, "", ""), {}).splitlines()[-1]
        == "- ephemeral `debug` waiting: ErrImagePull"
    )


def test_what_is_under_way_stands_apart_from_the_containers() -> None:
    """It uses the words of the timeline, and is not joined to the last container's line."""
    waiting = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
    busy: dict[str, Action] = {"sandbox": RunPodSandbox(POD, 2, {}), "image": PullImage(POD, "a`b", "Always")}
    lines = card(status(waiting), PodSummary("Running", False, 0, "", ""), busy).split("\n\n")
    assert lines == [
        "**Running**, not ready, no restarts",
        "- `main` waiting: ContainerCreating",
        "under way: `run sandbox, attempt 2`, `pull a'b (Always)`",
    ]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        pytest.param({"state": {"running": {}}}, "running", id="running-since-we-do-not-know-when"),
        pytest.param({"state": {"waiting": {"reason": "CrashLoopBackOff"}}}, "waiting: CrashLoopBackOff", id="waiting"),
        pytest.param({}, "unknown", id="nothing-known"),
        pytest.param(
            {"state": ENDED}, "ended: Error, exit code 3 at 2026-11-21 12:00:00 UTC", id="ended-says-how-and-when"
        ),
    ],
)
def test_a_container_in_words(state: dict[str, object], words: str) -> None:
    """Each state has its own words."""
    (only,) = status({"name": "main", **state}).container_statuses or []
    assert container_words(only) == words


@pytest.mark.parametrize(("count", "words"), [(0, "no restarts"), (1, "1 restart"), (2, "2 restarts")])
def test_restarts_in_words(count: int, words: str) -> None:
    """Singular and plural are correct."""
    assert restarts(count) == words


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        pytest.param("![](http://elsewhere/x.png)", ["`![](http://elsewhere/x.png)`"], id="a-picture"),
        pytest.param(
            "fine` **b** `\n```\n# Running", ["`fine' **b** '`", "`'''`", "`# Running`"], id="the-end-of-code"
        ),
        pytest.param("a\n \n    b", ["`a`", "`    b`"], id="empty-lines-are-left-out"),
        pytest.param("a\r# b\x0b# c\u2028# d", ["`a`", "`# b`", "`# c`", "`# d`"], id="other-line-ends"),
    ],
)
def test_a_message_is_code_line_by_line(message: str, shown: list[str]) -> None:
    """Nothing in it is rendered as markup, whatever its line endings."""
    assert quoted(message).split("  \n") == shown


def test_a_long_message_is_cut() -> None:
    """The summary stays small, and shows that text was cut."""
    assert quoted("x" * 5000) == f"`{'x' * MESSAGE_LIMIT} …`"


def test_a_blank_message_leaves_no_hole() -> None:
    """A container that wrote an empty line adds nothing."""
    main = {"name": "main", "state": {"running": {}}}
    lines = card(status(main), PodSummary("Running", True, 0, "Error", "\n"), {}).split("\n\n")
    assert lines == ["**Running**, ready, no restarts", "last reason: **Error**", "- `main` running"]


@pytest.mark.parametrize(
    ("dropped", "refused", "words"),
    [
        pytest.param(None, 0, "", id="none"),
        pytest.param(
            DroppedSignals(1, "a`b](x)", "it has no value", NOON),
            0,
            "\n\n**1 malformed signal dropped**, the last `a'b](x)` at 2026-11-21 12:00:00 UTC: it has no value",
            id="a-name-that-looks-like-markdown",
        ),
        pytest.param(
            None, 2, "\n\n**2 malformed updates refused** since the worker read this history", id="refused-updates"
        ),
    ],
)
def test_messages_of_strangers_are_told(dropped: DroppedSignals | None, refused: int, words: str) -> None:
    """The name is shown as code, because a stranger chose it."""
    assert strangers_words(dropped, refused) == words


@pytest.mark.parametrize(
    ("last", "words"),
    [
        pytest.param(None, "", id="never-away"),
        pytest.param(
            HandBack(AWAY, AWAY + timedelta(seconds=130), 12),
            "\n\nwhile Temporal was away (2 min 10 s, until 2026-11-23 17:02:10 UTC) the node led the pod: "
            "`tempolet history` tells what happened (12 entries)",
            id="with-a-story",
        ),
        pytest.param(
            HandBack(AWAY, AWAY + timedelta(seconds=9)),
            "\n\nwhile Temporal was away (9 s, until 2026-11-23 17:00:09 UTC) the node led the pod: nothing happened",
            id="idle",
        ),
    ],
)
def test_the_last_outage_is_told(last: HandBack | None, words: str) -> None:
    """As a paragraph of its own."""
    assert outage_words(last) == words
