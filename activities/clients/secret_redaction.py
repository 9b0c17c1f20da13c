"""Hide what a driver was told in secret where it repeats that.

A driver may quote what it was given in its errors, and those go into the pod's history and status. So every value of the
secrets of a call is looked for in the words of that call's error, also as JSON, in base64 and as part of an address.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

HIDDEN: Final = "[hidden]"
TOKENS: Final = "csi.storage.k8s.io/serviceAccount.tokens"
"""The key of the service account tokens that a driver asks for, be it among the secrets or the attributes of a volume."""
_SHORT: Final = 4
"""A value below this length is hidden only where it stands as a word: it would else be found in every word."""


def secrets_of(request: object) -> dict[str, str]:
    """Name all that a request tells in secret: its secrets, and each token, which stand in JSON."""
    secrets = dict(getattr(request, "secrets", {}))
    said = secrets.get(TOKENS) or getattr(request, "volume_context", {}).get(TOKENS)
    if said:
        secrets[TOKENS] = said
        secrets |= {f"{TOKENS} of {audience}": one["token"] for audience, one in json.loads(said).items()}
    return secrets


def redact_secrets(words: str, secrets: Mapping[str, str]) -> str:
    """Hide every value of the secrets in an error's words; the longest first, for one may hold another."""
    forms = {form for value in secrets.values() for form in _forms(value)}
    for form in sorted(forms, key=len, reverse=True):
        if len(form) < _SHORT:
            words = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", HIDDEN, words)
        else:
            words = words.replace(form, HIDDEN)
    return words


def _forms(value: str) -> Iterator[str]:
    for text in {value, value.strip(), *(line.strip() for line in value.splitlines())}:
        if text:
            yield from (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
            yield from (quote(text), quote(text, safe=""), quote_plus(text))
            yield base64.b64encode(text.encode()).decode()
