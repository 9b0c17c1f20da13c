"""Does a pull report its duration, its waiting time, its size and problems with credentials?"""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from proto.temporal import names
from proto.temporal.activities import requests
from tests.worker.history.story_recorder import POD, Recorder

IMAGE = "r.io/app:1"
MISSING = "FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (a)"


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        pytest.param(requests.PulledImage("sha256:1", present=True), [f"image {IMAGE} present (1.00 s)"], id="present"),
        pytest.param(
            requests.PulledImage("sha256:1", size_bytes=3_400_000),
            [f"image {IMAGE} pulled in 1.00 s, 3.4 MB"],
            id="pulled-at-once",
        ),
        pytest.param(
            requests.PulledImage("sha256:1", waited=timedelta(seconds=0.5), warnings=(MISSING,)),
            [f"image {IMAGE} pulled in 1.00 s (0.50 s of it waiting)", MISSING],
            id="pulled-after-others-with-a-secret-missing",
        ),
    ],
)
def test_pulls(answer: requests.PulledImage, texts: Sequence[str]) -> None:
    """One line, and one for each warning."""
    recorder = Recorder()
    recorder.begin()
    before = len(recorder.texts())
    recorder.do(names.PULL_IMAGE, requests.PullImage(POD, IMAGE, "Always"), answer, took=1.0)
    assert recorder.texts()[before:] == texts
