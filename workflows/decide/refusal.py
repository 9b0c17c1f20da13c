"""Why a pod's workflow rejects an operator's request; the rejected request is not in the history."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A machine-readable reason (NoSuch… if something does not exist) and a message for the operator."""

    reason: str
    message: str
