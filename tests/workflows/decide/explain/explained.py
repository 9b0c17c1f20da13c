"""Pods for the tests of explanations, and a filter for sentences."""

from datetime import timedelta
from typing import Any

from proto.temporal.activities.requests import PullImage, RunPodSandbox
from proto.temporal.images import ImageFacts
from proto.temporal.operator import SentenceKind
from proto.temporal.pod import Failure
from tests.workflows.decide.situations import IMAGE, KEY, Context, at, describe, down, sandbox, situation, up
from workflows.decide.explain.explain import explanation
from workflows.decide.keys import image_key

KEY_OF_IMAGE = image_key(IMAGE, "IfNotPresent")
PULL = PullImage(KEY, IMAGE, "IfNotPresent")
RUN = RunPodSandbox(KEY, 0, {}, ("web",))
ABSENT = {KEY_OF_IMAGE: ImageFacts()}
NOT_FOUND = ImageFacts(reason="ErrImagePull", message="not found", backoff=timedelta(seconds=20), failed_at=at(-5))
FORTY: dict[str, Any] = {"backoff": timedelta(seconds=40), "backoff_at": at(-50)}
LOOPS = down(1, attempt=3, **FORTY)
NEW: dict[str, Any] = {"sandbox": None, "directories": False}
GONE = sandbox(ready=False, stopped=True)
UP = {"containers": {"web": up()}}
NOT_READY = Failure("NetworkNotReady", "cni is away", at(-1), tries=3)


def said(kind: SentenceKind, source: dict[str, Any] | None, context: Context, known: dict[str, Any]) -> list[str]:
    """Return the sentences of one kind."""
    told = explanation(situation(source, context, **known), describe)
    return [one.text for one in told.sentences if one.kind is kind]
