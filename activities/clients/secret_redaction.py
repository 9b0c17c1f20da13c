"""Redacts the secrets of a CSI call in the driver's error.

A driver may quote what it was given, and its error becomes part of the pod's history and status. So the error's text is
searched for every secret of the call: as it is, as JSON, in base64 and as part of an address.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

HIDDEN: Final = "[hidden]"
TOKENS: Final = "csi.storage.k8s.io/serviceAccount.tokens"
"""The key of the service account tokens that a driver asks for, among the secrets or the attributes of a volume."""
_SHORT: Final = 4
"""A value shorter than this is redacted only as a whole word, or it would be found inside every word."""


def secrets_of(request: object) -> dict[str, str]:
    """Return all secrets of a request: its `secrets`, and each token, which is inside a JSON text."""
    secrets = dict(getattr(request, "secrets", {}))
    tokens = secrets.get(TOKENS) or getattr(request, "volume_context", {}).get(TOKENS)
    if tokens:
        secrets[TOKENS] = tokens
        secrets |= {f"{TOKENS} of {audience}": one["token"] for audience, one in json.loads(tokens).items()}
    return secrets


def redact_secrets(words: str, secrets: Mapping[str, str]) -> str:
    """Redact every value of the secrets in an error's text, the longest first, because one may contain another."""
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
