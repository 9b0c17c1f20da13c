"""Text in quotation marks, as Go's strconv.Quote writes it in error messages."""

import json


def go_quoted(text: str) -> str:
    """Quote a text; escapes what Go escapes, except for code points that cannot be printed."""
    return json.dumps(text, ensure_ascii=False)
