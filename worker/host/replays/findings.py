"""What follows from the replay of an open history, before the worker takes its tasks. Pure."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from workflows.decide.versions import KNOWN, why_unknown

LONGEST_FAILURE: Final = 200
"""Characters that are repeated."""
_MESSAGE: Final = re.compile(r'message: "(?P<message>(?:[^"\\]|\\.)+)')


class Finding(StrEnum):
    """What was found of one workflow."""

    FITS = "fits"
    DIFFERS = "differs"
    """This code cannot lead the run on."""
    OTHER_RELEASE = "other-release"
    """The run follows a behaviour that this release does not know, so its state is not for this release either."""
    UNCHECKED = "unchecked"
    """Its history is too large or cannot be read, or there was no time."""


@dataclass(frozen=True, slots=True)
class Found:
    """One workflow, and what was found of it."""

    workflow_id: str
    finding: Finding
    why: str = ""


def found(workflow_id: str, kind: str, behaviour: int, failure: str) -> Found:
    """Judge a replay; `kind` of the behaviour: "pods" or "node", `failure`: how the replay differs, empty if it does not."""
    if why := why_unknown(behaviour, KNOWN[kind]):
        return Found(workflow_id, Finding.OTHER_RELEASE, why)
    if failure:
        return Found(workflow_id, Finding.DIFFERS, in_short(failure))
    return Found(workflow_id, Finding.FITS)


def in_short(failure: str) -> str:
    """Return the message inside the words of the SDK's core, which print a whole structure."""
    named = _MESSAGE.search(failure)
    return (named["message"] if named else failure)[:LONGEST_FAILURE]


def reason(build: str, failure: str) -> str:
    """Say why the node leads a pod whose history differs."""
    return f"its history does not replay with this release ({build}): {failure}"
