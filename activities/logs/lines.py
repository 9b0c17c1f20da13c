"""One line of a container's log in the CRI's format: `<time> <stream> <tags> <text>`.

Used by `reader`. The time is RFC 3339 with any number of digits. The first tag says whether the text is a whole line
(F) or continues in the next entry (P); further tags are reserved (cri-client/pkg/logs parseCRILog).
"""

import re
from calendar import timegm
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

_TIME: Final = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)")
_PARTIAL: Final = b"P"


class Stream(StrEnum):
    """The stream that a container wrote to."""

    STDOUT = "stdout"
    STDERR = "stderr"


_STREAMS: Final = {one.encode(): one for one in Stream}


@dataclass(frozen=True, slots=True)
class LogLine:
    """One entry; a whole line's text includes its newline."""

    seconds: bytes
    fraction: bytes
    zone: bytes
    stream: Stream
    text: bytes

    @property
    def at(self) -> tuple[int, int]:
        """Its time: seconds since 1970, and nanoseconds; raises ValueError for an impossible date."""
        moment = datetime.fromisoformat((self.seconds + self.zone.replace(b"Z", b"+00:00")).decode())
        return timegm(moment.utctimetuple()), int(self.fraction.ljust(9, b"0") or 0)

    @property
    def timestamp(self) -> bytes:
        """Its time as shown to readers: RFC 3339 with nine digits, in the zone that it was written in."""
        zone = b"Z" if self.zone in {b"+00:00", b"-00:00"} else self.zone
        return self.seconds + b"." + self.fraction.ljust(9, b"0") + zone


def parse_line(entry: bytes) -> LogLine | None:
    """Parse an entry; None if it is not one (the runtime died while it wrote)."""
    parts = entry.split(b" ", 3)
    if len(parts) != 4:
        return None
    time, stream, tags, text = parts
    found = _TIME.fullmatch(time)
    if found is None or stream not in _STREAMS:
        return None
    if tags.split(b":")[0] == _PARTIAL:
        text = text.removesuffix(b"\n")
    return LogLine(found[1], found[2] or b"", found[3], _STREAMS[stream], text)


def nanoseconds(moment: datetime) -> tuple[int, int]:
    """Return a time in the form of `LogLine.at`."""
    return timegm(moment.utctimetuple()), moment.microsecond * 1000
