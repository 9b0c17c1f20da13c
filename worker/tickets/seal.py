"""Seals a ticket for one activity: the header by which the activity shows it.

The codec does not see headers, because some of them must stay plain (the trace context). So the ticket is encrypted here, with
the same keys; namespace, workflow id and activity id are the associated data. Nobody without a key can make one, and a
captured one opens for its own activity only.
"""

import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload

from proto.temporal.ticket import Ticket
from worker.temporal.keys import KeyFile

HEADER: Final = "tempolet-ticket"
SEALED: Final = b"binary/ticket"
KEY_ID: Final = "k"
_NONCE_BYTES: Final = 12
_LARGEST: Final = 256
"""Bytes of a sealed ticket."""


class TicketUnreadable(Exception):
    """A header that this node has not sealed for this activity."""


class TicketSeal:
    """Seals and opens the tickets of one namespace; used from any thread."""

    def __init__(self, keys: KeyFile, namespace: str) -> None:
        self._keys, self._namespace = keys, namespace.encode()
        self._ciphers: dict[str, AESGCM] = {}

    def sealed(self, ticket: Ticket, workflow_id: str, activity_id: str) -> Payload:
        """Seal a ticket for an activity."""
        key = self._keys.newest
        cipher = self._ciphers.get(key.key_id) or self._ciphers.setdefault(key.key_id, AESGCM(key.secret))
        nonce = os.urandom(_NONCE_BYTES)
        plain = f"{ticket.epoch} {ticket.incarnation}".encode()
        return Payload(
            metadata={"encoding": SEALED, KEY_ID: key.key_id.encode()},
            data=nonce + cipher.encrypt(nonce, plain, self._bound_to(workflow_id, activity_id)),
        )

    def opened(self, header: Payload, workflow_id: str, activity_id: str) -> Ticket:
        """Open what an activity shows; raises TicketUnreadable, or KeyMissing of `keys`."""
        if header.metadata.get("encoding") != SEALED or len(header.data) > _LARGEST:
            raise TicketUnreadable("it is no ticket")
        cipher = self._cipher(header.metadata.get(KEY_ID, b"").decode(errors="replace"))
        nonce, data = header.data[:_NONCE_BYTES], header.data[_NONCE_BYTES:]
        try:
            plain = cipher.decrypt(nonce, data, self._bound_to(workflow_id, activity_id))
        except (InvalidTag, ValueError):
            raise TicketUnreadable("it was not sealed for this activity") from None
        epoch, _, incarnation = plain.decode().partition(" ")
        return Ticket(incarnation, int(epoch))

    def _cipher(self, key_id: str) -> AESGCM:
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            key = self._keys.find(key_id)
            if key is None:
                raise TicketUnreadable("it names a key that is not an active one")
            cipher = self._ciphers[key_id] = AESGCM(key.secret)
        return cipher

    def _bound_to(self, workflow_id: str, activity_id: str) -> bytes:
        return b"\0".join((b"tempolet/ticket/1", self._namespace, workflow_id.encode(), activity_id.encode()))
