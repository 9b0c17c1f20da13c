"""Values as sealed bytes, each bound to one workflow and to one kind of file.

Sealed as payloads are (`worker/temporal/codec.py`): compressed, encrypted with the node's payload keys. The associated data has
the kind of file in place of a Temporal namespace, so nothing of a history opens as a file, and no file as another one.
"""

import contextlib
import threading
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload, Payloads

from worker.payloads.receiving import ReceivingConverter
from worker.payloads.refused import PayloadRefused
from worker.temporal.codec import KEY_ID, WORKFLOW_ID, PayloadCipher
from worker.temporal.keys import KeyFile

_FILE: Final = "file\0away/"
"""No Temporal namespace has a NUL in its name."""
Value = TypeVar("Value")


class SealedValues:
    """Seals and opens values; may be called from any thread."""

    def __init__(self, keys: KeyFile) -> None:
        """Take the keys, which no other thread uses."""
        self._converter = ReceivingConverter()
        self._keys = keys
        self._cipher = PayloadCipher(keys)
        self._lock = threading.Lock()

    def plain(self, value: Any) -> Payload:
        """Convert a value to JSON."""
        return self._converter.to_payloads([value])[0]

    def value(self, payload: Payload, kind: type[Value]) -> Value:
        """Convert JSON to a value of this type; raises PayloadRefused for another one, and what pydantic raises."""
        found: Value = self._converter.from_payloads([payload], [kind])[0]
        return found

    def seal(self, payloads: Sequence[Payload], workflow_id: str, file: str) -> bytes:
        """Seal values together."""
        plain = Payload(data=Payloads(payloads=payloads).SerializeToString())
        with self._lock:
            return self._cipher.encrypt(plain, _FILE + file, workflow_id).SerializeToString()

    def is_of_newest_key(self, data: bytes) -> bool:
        """Say whether the key that seals now has sealed this; what an older one sealed is to be written again."""
        with contextlib.suppress(DecodeError):
            return Payload.FromString(data).metadata.get(KEY_ID) == self._keys.newest.key_id.encode()
        return False

    def open(self, data: bytes, file: str, workflow_id: str | None = None) -> tuple[str, list[Payload]]:
        """Open what was sealed; returns the workflow's id and the values. Without a workflow id, the named one is verified.

        Raises PayloadRefused, or KeyMissing of `keys`.
        """
        try:
            sealed = Payload.FromString(data)
            with self._lock:
                plain = self._cipher.decrypt(sealed, _FILE + file, workflow_id)
            return sealed.metadata[WORKFLOW_ID].decode(), list(Payloads.FromString(plain.data).payloads)
        except (DecodeError, UnicodeDecodeError) as error:
            raise PayloadRefused(f"not a sealed file: {error}") from error
