"""Are the recorded lives free of stack traces, which name paths of the recording machine?"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATHS = sorted(Path(__file__).parent.glob("*histories/*.json"))


def traces(told: Any) -> Iterator[str]:
    """Yield every stack trace of a history."""
    if isinstance(told, list):
        for one in told:
            yield from traces(one)
    elif isinstance(told, dict):
        yield told.get("stackTrace", "")
        if failure := told.get("encodedAttributes"):
            yield json.loads(base64.b64decode(failure["data"]))["stack_trace"]
        for one in told.values():
            yield from traces(one)


def test_no_recorded_failure_tells_where_it_arose() -> None:
    """`make record` removes stack traces."""
    assert [path.stem for path in PATHS if any(traces(json.loads(path.read_text())))] == []
