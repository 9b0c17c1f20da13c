"""Why a pod's workflow does not do what an operator asks of it: said before history knows of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A word for programs (NoSuch… for what is not there), and what to tell who asked: what, which one, what now."""

    reason: str
    message: str
