"""The messages on the worker's socket: JSON objects of bounded size, each after its length in four bytes.

Values are converted as for Temporal (`worker/payloads/`), but not encrypted: the socket is root's alone. What is refused is
described without its content, because nothing of it may be logged.
"""

import asyncio
import json
import struct
from collections.abc import Mapping
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadConverter

from proto.temporal.names import SHAPE

LARGEST: Final = 4 * 1024 * 1024
"""Bytes of a frame; Temporal's own limit of a message is 4 MB, too."""
LONGEST: Final = 1000
"""Characters of an id or a name, as in Temporal."""
_LONGEST_DURATION: Final = 1e9
"""Seconds; a whole number may be larger than any float."""
_LENGTH: Final = struct.Struct(">I")

Body = Mapping[str, Any]


class FrameRefused(Exception):
    """A frame that is too large, or is not what this side expects."""


def frame(body: Body) -> bytes:
    """Return the bytes of a frame; raises FrameRefused."""
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
    if len(data) > LARGEST:
        raise FrameRefused(f"it has {len(data)} bytes, {LARGEST} are allowed")
    return _LENGTH.pack(len(data)) + data


async def read_frame(reader: asyncio.StreamReader) -> Body:
    """Read one frame; raises FrameRefused, and EOFError if the other side is gone."""
    (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if size > LARGEST:
        raise FrameRefused(f"it has {size} bytes, {LARGEST} are allowed")
    data = await reader.readexactly(size)
    try:
        body = json.loads(data.decode(errors="surrogatepass"))
    except (ValueError, RecursionError):
        raise FrameRefused("it is not JSON") from None
    if not isinstance(body, dict):
        raise FrameRefused("it is not a JSON object")
    return body


def text(body: Body, name: str) -> str:
    """Read a text; a missing one is empty."""
    value = body.get(name, "")
    if not isinstance(value, str) or len(value) > LONGEST:
        raise FrameRefused(f"its {name} is not a text of up to {LONGEST} characters")
    return value


def whole_number(body: Body, name: str) -> int:
    """Read a number of 0 and above; a missing one is 0."""
    value = body.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise FrameRefused(f"its {name} is not a whole number")
    return value


def seconds(body: Body, name: str) -> float:
    """Read a duration; a missing one is 0."""
    value = body.get(name, 0)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= _LONGEST_DURATION:
        raise FrameRefused(f"its {name} is not a duration")
    return float(value)


def packed(converter: PayloadConverter, value: Any) -> Body:
    """Convert a value; raises FrameRefused."""
    try:
        (payload,) = converter.to_payloads([value])
        metadata = {name: one.decode() for name, one in payload.metadata.items()}
        return {"metadata": metadata, "data": payload.data.decode()}
    except Exception:  # noqa: BLE001 - whatever a converter raises; its text may repeat the value
        raise FrameRefused("its value cannot be converted") from None


def shape_of(body: Body, name: str) -> str:
    """Return the name of a value's type; empty if it names none."""
    packet = body.get(name)
    metadata = packet.get("metadata") if isinstance(packet, dict) else None
    return text(metadata, SHAPE) if isinstance(metadata, dict) else ""


def unpacked(converter: PayloadConverter, body: Body, name: str, shape: Any) -> Any:
    """Convert a value back to its type; raises FrameRefused."""
    try:
        packet = body[name]
        metadata = {key: one.encode() for key, one in packet["metadata"].items()}
        payload = Payload(metadata=metadata, data=packet["data"].encode())
        (value,) = converter.from_payloads([payload], [shape])
    except Exception:  # noqa: BLE001 - whatever a converter raises; its text may repeat the value
        raise FrameRefused(f"its {name} is not of the type that belongs there") from None
    return value
