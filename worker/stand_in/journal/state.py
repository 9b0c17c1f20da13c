"""The newest state of one workflow, in one sealed file: what its next run would be started with."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from temporalio.api.common.v1 import Payload

from proto.temporal.node import NodeObserved, NodeStart
from proto.temporal.pod import Observed, PodStart
from worker.payloads.refused import PayloadRefused
from worker.stand_in.journal.kept import Kept, Place, Start, folder_of, is_node
from worker.stand_in.journal.private_folder import PrivateFolder
from worker.stand_in.journal.sealed import SealedValues

STATE: Final = "state"
LARGEST_STATE: Final = 4 * 1024 * 1024
"""Bytes of the file; Temporal takes no start above 2 MB."""
OLDER_KEY: Final = b"older key"
"""In place of the digest of a state that an older key has sealed: no state equals it, so the next one is written."""


@dataclass(frozen=True, slots=True)
class State:
    """A state to write: `observed` is JSON already, because the workflow changes it as soon as it goes on."""

    start: Start
    """Without `observed`."""
    observed: Payload
    place: Place
    folded: int


def captured(sealing: SealedValues, start: Start, place: Place, folded: int) -> State:
    """Take a workflow's state as it is now."""
    return State(replace(start, observed=None), sealing.plain(start.observed), place, folded)


def uncaptured(sealing: SealedValues, state: State) -> Start:
    """Return the workflow's state as it was."""
    if isinstance(state.start, NodeStart):
        return replace(state.start, observed=sealing.value(state.observed, NodeObserved))
    return replace(state.start, observed=sealing.value(state.observed, Observed))


def values_of(sealing: SealedValues, state: State) -> list[Payload]:
    """Return what the file of a state holds."""
    header = [sealing.plain(state.place), sealing.plain(state.folded)]
    return [*header, sealing.plain(state.start), state.observed]


def digest_of(sealing: SealedValues, values: Sequence[Payload]) -> bytes:
    """Return what two equal states have in common; where in the history they stand does not count."""
    place = replace(sealing.value(values[0], Place), length=0, at=None)
    found = hashlib.blake2b(repr(place).encode(), digest_size=16)
    for part in values[1:]:
        found.update(len(part.data).to_bytes(8))
        found.update(part.data)
    return found.digest()


def write_state(folder: PrivateFolder, sealing: SealedValues, workflow_id: str, values: Sequence[Payload]) -> None:
    """Write a state; raises OSError, and ValueError for one that is too large to be read again."""
    sealed = sealing.seal(values, workflow_id, STATE)
    if len(sealed) > LARGEST_STATE:
        raise ValueError(f"the state of {workflow_id} has {len(sealed)} bytes, more than {LARGEST_STATE}")
    folder.replace(STATE, sealed)


def read_state(folder: PrivateFolder, sealing: SealedValues) -> tuple[Kept, bytes]:
    """Read the state in a workflow's folder, without its story, and the digest; raises OSError, PayloadRefused, KeyMissing, ValueError."""
    data = folder.read(STATE, LARGEST_STATE)
    workflow_id, values = sealing.open(data, STATE)
    if folder_of(workflow_id) != folder.path.name:
        raise PayloadRefused(f"it belongs to workflow {workflow_id}")
    place, folded, start, observed = values
    kept = Kept(
        workflow_id,
        _start(sealing, workflow_id, start, observed),
        sealing.value(place, Place),
        sealing.value(folded, int),
    )
    return kept, digest_of(sealing, values) if sealing.is_of_newest_key(data) else OLDER_KEY


def _start(sealing: SealedValues, workflow_id: str, start: Payload, observed: Payload) -> Start:
    if is_node(workflow_id):
        return replace(sealing.value(start, NodeStart), observed=sealing.value(observed, NodeObserved))
    return replace(sealing.value(start, PodStart), observed=sealing.value(observed, Observed))


def remove_state(folder: PrivateFolder) -> None:
    """Remove the file."""
    for name in (STATE, f".{STATE}"):
        folder.remove(name)
