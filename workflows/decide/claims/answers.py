"""Judges what a driver answers about claims: only for those asked for, and for all of them (manager.go)."""

from collections.abc import Mapping, Sequence

from proto.dra.claims import Claim, ClaimAnswer
from proto.messages import shorten
from workflows.decide.claims.allocated import ClaimRefused


def checked(call: str, asked: Sequence[Claim], answers: Mapping[str, ClaimAnswer]) -> Mapping[str, ClaimAnswer]:
    """Return the answers by the claims' uids; raises ClaimRefused in the kubelet's words."""
    names = {one.uid: one.name for one in asked}
    for uid, answer in answers.items():
        if uid not in names:
            raise ClaimRefused(f"{call} returned result for unknown claim UID {shorten(uid)}")
        if answer.error:
            raise ClaimRefused(f"{call} failed for ResourceClaim {names[uid]}: {answer.error}")
    if unfinished := len(names) - len(answers):
        raise ClaimRefused(f"{call} skipped {unfinished} ResourceClaims")
    return answers
