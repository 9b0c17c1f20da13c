"""Does the history say which operator asked for what, and what changed?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal import names
from proto.temporal.operator import BackoffsSkipped, EphemeralContainerAdded, SkippedBackoff
from tests.worker.history.sentences.test_container_sentences import end, recorded, start
from tests.worker.history.story_recorder import Recorder

__all__ = ["recorded"]  # a fixture of another file


def test_an_operator_s_skip_is_told_with_who_and_how_much(recorded: Recorder) -> None:
    """Also at the restart that follows; the next back-off is as long as it would have been."""
    start(recorded, 0)
    for attempt in (1, 2):
        end(recorded, attempt - 1)
        recorded.after(4)
        if attempt == 2:
            left = SkippedBackoff("web", "CrashLoopBackOff", timedelta(seconds=6), attempt=2)
            recorded.update(names.SKIP_BACKOFF, BackoffsSkipped("root@node-1", (left,)))
        start(recorded, attempt)
    end(recorded, 2)
    recorded.after(20)
    start(recorded, 3)
    assert recorded.texts()[-5:] == [
        "container web ended: exit 1 Error",
        "operator root@node-1 skipped the back-off of web (6.00 s left)",
        (
            "container web started, restart 2 (0.00 s): policy Always after exit 1 Error, back-off of 10.0 s skipped by "
            "root@node-1 after 4.00 s"
        ),
        "container web ended: exit 1 Error",
        "container web started, restart 3 (0.00 s): policy Always after exit 1 Error, back-off 20.0 s",
    ]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(
            EphemeralContainerAdded("a@b", "uid-1", "debug", "tools:1"),
            "operator a@b added ephemeral container debug of tools:1",
            id="alone",
        ),
        pytest.param(
            EphemeralContainerAdded("a@b", "uid-1", "debug", "tools:1", "web", "target container web is not running"),
            "operator a@b added ephemeral container debug of tools:1, to see the processes of web "
            "(target container web is not running)",
            id="into-another",
        ),
    ],
)
def test_who_looks_into_a_pod_is_told(recorded: Recorder, answer: EphemeralContainerAdded, text: str) -> None:
    """With its image and target."""
    recorded.update(names.ADD_EPHEMERAL_CONTAINER, answer)
    assert recorded.texts()[1:] == [text]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(
            BackoffsSkipped("a@b", (SkippedBackoff("web", "ErrImagePull", timedelta(seconds=7), image="busybox:9"),)),
            "operator a@b skipped the back-off of busybox:9 (ErrImagePull) (7.00 s left)",
            id="an-image",
        ),
        pytest.param(
            BackoffsSkipped("a@b"), "operator a@b asked to skip a back-off that had already ended", id="too-late"
        ),
        pytest.param({"odd": 1}, "update SkipBackoff, which this release does not know or cannot read", id="odd"),
    ],
)
def test_a_skip_in_words(recorded: Recorder, answer: Any, text: str) -> None:
    """Of an image, of nothing, and one that cannot be read."""
    recorded.update(names.SKIP_BACKOFF, answer)
    assert recorded.texts()[1:] == [text]
